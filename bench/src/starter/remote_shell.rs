//! A program in place of `ssh`: `remote-shell HOST WORDS...` runs the words on the far host, which
//! is a process of this machine with a network of its own.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Neighbour;

/// Writes it into `folder`, with these variables for what it runs.
pub(crate) fn write(
    (folder, name): (&Path, &str),
    neighbour: Neighbour,
    variables: &[(&str, &str)],
) -> io::Result<PathBuf> {
    let path = folder.join(name);
    let assignments: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("export {name}='{value}'"))
        .collect();
    // On the far host's CPU, as everything that it starts itself.
    let on_cpu = neighbour
        .cpus
        .map_or_else(String::new, |[_, cpu]| format!("taskset -c {cpu} "));
    let script = format!(
        "#!/bin/sh\n{}\nshift\nexec {on_cpu}nsenter -t {} -n -m sh -c \"$*\"\n",
        assignments.join("\n"),
        neighbour.process,
    );
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    Ok(path)
}
