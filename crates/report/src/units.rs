//! Sizes and counts as people read them.

/// `5 B`, `64 KiB`, `1.5 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    if bytes.is_multiple_of(1 << shift) {
        return format!("{} {unit}", bytes >> shift);
    }
    format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64)
}

/// `1 CPU`, `2 CPUs`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(bytes(5), "5 B");
        assert_eq!(bytes(65536), "64 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(counted(1, "CPU"), "1 CPU");
        assert_eq!(counted(0, "CPU"), "0 CPUs");
    }
}
