//! The display that the environment names.

/// The displays that the environment names, as it names them; `None`: it names none.
#[must_use]
pub fn display() -> Option<String> {
    let names = ["WAYLAND_DISPLAY", "DISPLAY"].into_iter();
    let named = names.filter_map(|name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        Some(format!("{name}={}", value.to_string_lossy()))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(" "))
}

/// The same for a message.
pub(crate) fn display_or_none() -> String {
    display().unwrap_or_else(|| "no display (DISPLAY is not set)".to_owned())
}
