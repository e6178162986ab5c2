//! `hythe host wire`: serves an interface with `AF_XDP` sockets until it is asked to stop.

use std::io;
use std::path::Path;

use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use hythe_wire::{Attachment, Options, Service};

use super::args::{AttachArg, WireArgs};

/// Users that are not of a directory elsewhere.
const USERS: &str = "/etc/passwd";

pub(super) fn run(args: &WireArgs) -> Result<(), CliError> {
    let user = match &args.user {
        None => hythe_sys::identity::effective_user(),
        Some(user) => user_number(user)?,
    };
    let stop = Stop::on_signals()?;
    let mut service = Service::open(Options {
        interface: args.interface.clone(),
        user,
        path: None,
        attachments: ways(args),
    })
    .map_err(|error| failed(&args.interface, &error))?;
    output::note(format!("serves {} for user {user}", service.describe()));
    service
        .run(stop.descriptor())
        .map_err(|error| failed(&args.interface, &error))
}

/// Where the program may be put, the better first.
fn ways(args: &WireArgs) -> Vec<Attachment> {
    match args.attach {
        Some(AttachArg::Driver) => vec![Attachment::Driver],
        Some(AttachArg::Generic) => vec![Attachment::Generic],
        // Drivers of virtual interfaces build new buffers for what comes; measured on veth.
        None => match is_hardware(&args.interface) {
            true => vec![Attachment::Driver, Attachment::Generic],
            false => vec![Attachment::Generic, Attachment::Driver],
        },
    }
}

fn is_hardware(interface: &str) -> bool {
    Path::new("/sys/class/net")
        .join(interface)
        .join("device")
        .exists()
}

fn user_number(user: &str) -> Result<u32, CliError> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let users = std::fs::read_to_string(USERS)
        .map_err(|error| CliError::Failed(format!("{USERS}: {error}")))?;
    number_of(&users, user).ok_or_else(|| {
        CliError::Failed(format!(
            "{USERS} has no user `{user}`: give the number that `id -u` says"
        ))
    })
}

fn number_of(users: &str, name: &str) -> Option<u32> {
    let mut fields = users.lines().map(|line| line.split(':'));
    let mut fields =
        fields.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

fn failed(interface: &str, error: &io::Error) -> CliError {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": it needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, which the unit hythe-wire@ has"
        }
        io::ErrorKind::ResourceBusy => {
            ": another program has it, or processes have not let go of their sockets yet"
        }
        _ => "",
    };
    CliError::Failed(format!("cannot serve {interface}: {error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_names() {
        let users = "root:x:0:0:root:/root:/bin/sh\ncamera:x:1000:1000::/:/bin/sh\nodd\n";
        assert_eq!(number_of(users, "root"), Some(0));
        assert_eq!(number_of(users, "camera"), Some(1000));
        assert_eq!(number_of(users, "odd"), None);
        assert_eq!(number_of(users, "came"), None);
        assert_eq!(user_number("1234").ok(), Some(1234));
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = failed("eth1", &error).to_string();
        assert!(said.contains("eth1") && said.contains("CAP_BPF"), "{said}");
    }
}
