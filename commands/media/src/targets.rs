//! Where a stream is sent, as it was said on the command line or stands in a file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use hythe::media::address::StreamAddress;
use hythe::media::send::repair::Parity;
use hythe::media::send::session::SendSession;
use hythe::media::wire::destinations::DestinationId;
use hythe::media::wire::endpoint::DestinationOptions;
use hythe::media::wire::method::Method;
use hythe_command::error::CliError;
use hythe_sys::regular_file::read_regular_text;
use hythe_terminal::escaped;

use super::repair;

/// The largest file of destinations that is read: far more than a thousand lines.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The destinations.
#[derive(Args, Debug)]
pub(super) struct TargetArgs {
    /// A destination, rtp://HOST:PORT, for a group with ?ttl=N&interface=NAME; may be repeated
    #[arg(long = "to", value_name = "URL", required_unless_present = "to_file")]
    pub(super) to: Vec<StreamAddress>,
    /// Destinations from a file, one a line; SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    pub(super) to_file: Option<PathBuf>,
    /// Send by this method only, for measurement: sendfile-gso, gso, sendmmsg or sendto [default:
    /// the best that each way allows]
    #[arg(long, value_name = "METHOD")]
    pub(super) method: Option<Method>,
    /// The class of the interface's packet scheduler that takes the packets, as MAJOR:MINOR in
    /// hexadecimal, such as 1:10 (SO_PRIORITY; HTB and its like)
    #[arg(long, value_name = "CLASS", value_parser = parse_class)]
    pub(super) class: Option<i32>,
}

/// As `tc` writes it.
fn parse_class(text: &str) -> Result<i32, String> {
    let numbers = text.split_once(':').and_then(|(major, minor)| {
        let major = u16::from_str_radix(major, 16).ok()?;
        Some((major, u16::from_str_radix(minor, 16).ok()?))
    });
    let (major, minor) = numbers
        .filter(|(major, _)| *major > 0)
        .ok_or_else(|| format!("{} is no class such as 1:10", escaped(text)))?;
    // The kernel reads the same 32 bits, whatever their sign.
    Ok((u32::from(major) << 16 | u32::from(minor)).cast_signed())
}

/// The destinations of a session, by what they were called.
#[derive(Debug)]
pub(super) struct Targets {
    present: BTreeMap<String, (DestinationId, SocketAddr)>,
    /// What is sent beside the stream.
    parity: Option<Parity>,
    /// Packets may have departure times.
    departures: bool,
}

impl TargetArgs {
    /// All that are wanted now.
    pub(super) fn wanted(&self) -> Result<Vec<StreamAddress>, CliError> {
        let mut wanted = self.to.clone();
        if let Some(path) = &self.to_file {
            wanted.extend(read(path)?);
        }
        Ok(wanted)
    }

    fn options(&self, address: &StreamAddress, departures: bool) -> DestinationOptions {
        let mut options = DestinationOptions::default();
        options.departures = departures;
        options.method = self.method;
        options.priority = self.class;
        options.multicast_hops = address.ttl.unwrap_or(options.multicast_hops);
        options.multicast_interface.clone_from(&address.interface);
        options
    }
}

impl Targets {
    /// None yet, for a stream with such parity, of packets with departure times or without.
    pub(super) fn new(parity: Option<Parity>, departures: bool) -> Self {
        Self {
            present: BTreeMap::new(),
            parity,
            departures,
        }
    }

    /// Adds and removes destinations until the session has those that are wanted. Those that stay
    /// are not disturbed, and one that cannot be added does not keep the others away: what is wrong
    /// with it is given to `tell`.
    pub(super) fn follow(
        &mut self,
        args: &TargetArgs,
        wanted: &[StreamAddress],
        session: &mut SendSession,
        tell: &mut dyn FnMut(String),
    ) {
        let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        self.present.retain(|name, (id, _)| {
            let stays = names.contains(name);
            if !stays && session.destinations().remove(*id).is_some() {
                tell(format!("{name}: removed"));
            }
            stays
        });
        for (address, name) in wanted.iter().zip(names) {
            if self.present.contains_key(&name) {
                continue;
            }
            let options = args.options(address, self.departures);
            match self.add(&options, address, session) {
                Ok(added) => drop(self.present.insert(name, added)),
                Err(why) => tell(why),
            }
        }
    }

    fn add(
        &self,
        options: &DestinationOptions,
        address: &StreamAddress,
        session: &mut SendSession,
    ) -> Result<(DestinationId, SocketAddr), String> {
        let resolved = address.resolve().map_err(|error| error.to_string())?;
        let others = self.present.values().map(|(_, other)| *other);
        if let Some(why) = repair::collision(self.parity, resolved, others) {
            return Err(why);
        }
        let added = session.destinations().add(resolved, options);
        let id = added.map_err(|error| error.to_string())?;
        Ok((id, resolved))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.present.len()
    }
}

fn read(path: &Path) -> Result<Vec<StreamAddress>, CliError> {
    let failed = |error| CliError::file("read", path)(error);
    let text = read_regular_text(path, FILE_BYTES_MAX).map_err(failed)?;
    let lines = text.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(index, line)| {
            line.parse().map_err(|error| {
                CliError::Failed(format!("{}, line {}: {error}", escaped(&path), index + 1))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_as_tc_writes_them() {
        assert_eq!(parse_class("1:10"), Ok(0x0001_0010));
        assert_eq!(
            parse_class("ffff:a").map(i32::cast_unsigned),
            Ok(0xffff_000a)
        );
        for text in ["", "1", "0:1", "1:x", "1:10000", "-1:1"] {
            assert!(parse_class(text).is_err(), "{text}");
        }
    }
}
