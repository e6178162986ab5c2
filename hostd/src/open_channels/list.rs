//! Which channels are open: a file of names, a line each, in the hosts directory.
//!
//! Written by `hythe host allow`, read by the agent. Names are exact: a pattern would let programs
//! outside the realm make channels.

use zenoh::key_expr::KeyExpr;

use crate::HostdError;
use crate::hosts_directory::HostsDirectory;
use crate::realm::file;

/// The file.
pub const OPEN_FILE: &str = "open-channels";
/// The most channels that are open: each has threads.
const OPEN_MAX: usize = 64;
/// The longest name of a channel.
const NAME_BYTES_MAX: usize = 64;
/// What the keys of open channels begin with.
const PREFIX: &str = "hythe/open";

/// The key of a channel for other Zenoh programs.
pub(super) fn key_of(channel: &str) -> String {
    format!("{PREFIX}/{channel}")
}

/// The channels that are open.
///
/// # Errors
/// The file cannot be read, or somebody has written into it what is none.
pub(crate) fn read(directory: &HostsDirectory) -> Result<Vec<String>, HostdError> {
    let text = directory.read_text(OPEN_FILE)?.unwrap_or_default();
    let channels: Vec<String> = text.lines().map(str::to_owned).collect();
    match channels.len() > OPEN_MAX {
        true => Err(directory.damaged(OPEN_FILE, &too_many())),
        false => Ok(channels),
    }
}

/// Opens a channel to programs outside the realm; says under which key.
///
/// # Errors
/// Its name is no key; too many are open; what the system says.
pub fn open(directory: &HostsDirectory, channel: &str) -> Result<String, HostdError> {
    check(channel)?;
    change(directory, |channels| {
        channels.retain(|other| other != channel);
        channels.push(channel.to_owned());
    })?;
    Ok(key_of(channel))
}

/// Closes a channel to programs outside the realm.
///
/// # Errors
/// It is not open; what the system says.
pub fn close(directory: &HostsDirectory, channel: &str) -> Result<(), HostdError> {
    if !read(directory)?.iter().any(|other| other == channel) {
        let channel = hythe_terminal::escaped(channel);
        return Err(HostdError::Agent(format!(
            "channel `{channel}` is not open: `hythe host status` shows those that are"
        )));
    }
    change(directory, |channels| {
        channels.retain(|other| other != channel)
    })
}

fn change(
    directory: &HostsDirectory,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<(), HostdError> {
    let _lock = directory.lock(file::CHANGE_LOCK)?;
    let mut channels = read(directory)?;
    change(&mut channels);
    if channels.len() > OPEN_MAX {
        return Err(HostdError::Agent(too_many()));
    }
    let lines = channels.iter().map(|channel| format!("{channel}\n"));
    directory.write(OPEN_FILE, lines.collect::<String>().as_bytes())
}

fn too_many() -> String {
    format!(
        "at most {OPEN_MAX} channels can be open: close one (`hythe host allow --close CHANNEL`)"
    )
}

fn check(channel: &str) -> Result<(), HostdError> {
    let refuse = |why: String| {
        let channel = hythe_terminal::escaped(channel);
        HostdError::Agent(format!(
            "channel `{channel}` cannot be open: {why}; programs of Zenoh could not name it"
        ))
    };
    if channel.len() > NAME_BYTES_MAX || channel.contains(char::is_control) {
        return Err(refuse(format!(
            "a name has at most {NAME_BYTES_MAX} bytes, without control characters"
        )));
    }
    let key = KeyExpr::try_from(key_of(channel)).map_err(|error| refuse(error.to_string()))?;
    match key.is_wild() {
        true => Err(refuse("it has a wildcard".to_owned())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_opened_once_and_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts");
        let directory = HostsDirectory::open_or_create(&path).expect("own");
        assert_eq!(read(&directory).expect("none"), Vec::<String>::new());
        for _ in 0..2 {
            let key = open(&directory, "camera/left").expect("opened");
            assert_eq!(key, "hythe/open/camera/left");
        }
        assert_eq!(read(&directory).expect("one"), ["camera/left"]);
        assert!(close(&directory, "camera").is_err());
        close(&directory, "camera/left").expect("closed");
        assert_eq!(read(&directory).expect("none"), Vec::<String>::new());
    }

    #[test]
    fn name_that_is_no_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts");
        let directory = HostsDirectory::open_or_create(&path).expect("own");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "", "a//b", "/a", "a/", "a*", "**", "a/*/b", "a?", "a#", "a\nb", &long,
        ] {
            assert!(open(&directory, bad).is_err(), "{bad}");
        }
        for number in 0..OPEN_MAX {
            open(&directory, &format!("c{number}")).expect("opened");
        }
        assert!(open(&directory, "one more").is_err());
    }
}
