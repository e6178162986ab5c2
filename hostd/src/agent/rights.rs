//! Who may do what here: what the realm's authority granted, and the rules of this host before it.

use hythe_cluster::{HostName, Rights, Rule};

use crate::HostdError;
use crate::hosts_directory::HostsDirectory;
use crate::realm::{Identity, file};

/// The rules of this host, a line each.
pub const RIGHTS_FILE: &str = "rights";

/// The rules in force: grants of the realm's list for the other hosts, which never permit to start
/// programs, and then those of this host, of which a later one goes before.
pub(super) fn effective(
    directory: &HostsDirectory,
    identity: &Identity,
) -> Result<Rights, HostdError> {
    let mut rights = Rights::default();
    let others = identity.document().hosts.iter();
    for host in others.filter(|host| host.name != *identity.name()) {
        for grant in &host.grants {
            let words = grant.rights.split(',').filter(|right| *right != "spawn");
            for right in words {
                let line = format!("{} {} {right}", host.name, grant.pattern);
                add(&mut rights, directory, file::DOCUMENT, &line)?;
            }
        }
    }
    for rule in own(directory)?.rules() {
        add(&mut rights, directory, RIGHTS_FILE, &rule.to_string())?;
    }
    Ok(rights)
}

/// Adds a rule of this host, which goes before all that there are.
///
/// # Errors
/// It is no rule; the realm has no host of that name; there are too many; what the system says.
pub fn allow(
    directory: &HostsDirectory,
    host: &str,
    pattern: &str,
    right: &str,
) -> Result<Rule, HostdError> {
    let bad = |error: hythe_cluster::BadRule| HostdError::Agent(error.to_string());
    let rule: Rule = format!("{host} {pattern} {right}").parse().map_err(bad)?;
    // A host's name or a pattern of names.
    if !host.contains(['*', '?', '[']) {
        let name = host.parse::<HostName>()?;
        let identity = Identity::load(directory)?;
        if identity.document().host(&name).is_none() {
            return Err(HostdError::UnknownHost {
                name,
                realm: identity.realm().to_owned(),
                known: identity.document().names(),
            });
        }
    }
    let _lock = directory.lock(file::CHANGE_LOCK)?;
    let mut rights = own(directory)?;
    rights.add(rule.clone()).map_err(bad)?;
    let lines = rights.rules().iter().map(|rule| format!("{rule}\n"));
    directory.write(RIGHTS_FILE, lines.collect::<String>().as_bytes())?;
    Ok(rule)
}

fn own(directory: &HostsDirectory) -> Result<Rights, HostdError> {
    let text = directory.read_text(RIGHTS_FILE)?.unwrap_or_default();
    Rights::parse(&text).map_err(|error| directory.damaged(RIGHTS_FILE, &error.to_string()))
}

fn add(
    rights: &mut Rights,
    directory: &HostsDirectory,
    file: &str,
    line: &str,
) -> Result<(), HostdError> {
    let added = line.parse().and_then(|rule| rights.add(rule));
    added.map_err(|error| directory.damaged(file, &error.to_string()))
}
