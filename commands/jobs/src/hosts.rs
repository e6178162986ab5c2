//! The hosts of a job: `--hosts a,b:2`, a file of lines `HOST slots=N`, or one of PVM.

use std::path::Path;

use hythe_cluster::HostName;
use hythe_cluster::tasks::JobHost;
use hythe_command::error::CliError;
use hythe_pvm::hostfile::Hostfile;

/// The most tasks that one host gets in turn.
const SLOTS_MAX: u32 = 512;

/// In the order in which they were named; none: this one.
pub(super) fn hosts(named: &[String], file: Option<&Path>) -> Result<Vec<JobHost>, CliError> {
    let Some(path) = file else {
        return named.iter().map(|text| host(text)).collect();
    };
    let text = read(path)?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim());
    let hosts = lines.filter(|line| !line.is_empty()).map(line_of);
    let hosts = hosts.collect::<Result<Vec<JobHost>, _>>()?;
    match hosts.is_empty() {
        true => Err(CliError::WrongUse(format!(
            "the host file {} names no host: a line is HOST or HOST slots=N",
            hythe_terminal::escaped(path)
        ))),
        false => Ok(hosts),
    }
}

fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| {
        CliError::Failed(format!(
            "cannot read {}: {error}",
            hythe_terminal::escaped(path)
        ))
    })
}

/// A hostfile of PVM.
pub(super) fn file_of_pvm(path: &Path) -> Result<Hostfile, CliError> {
    let file = hythe_pvm::hostfile::parse(&read(path)?);
    file.map_err(|error| {
        let path = hythe_terminal::escaped(path).to_string();
        CliError::WrongUse(format!(
            "{path}: {}",
            hythe_terminal::escaped(&error.to_string())
        ))
    })
}

/// Those with which a machine begins, by PVM's hostfile.
pub(super) fn hosts_of_pvm(path: &Path) -> Result<Vec<JobHost>, CliError> {
    let hosts = file_of_pvm(path)?.hosts.into_iter();
    let hosts = hosts.filter(|host| !host.is_later);
    hosts
        .map(|line| {
            let name: Result<HostName, hythe_cluster::BadHostName> = line.name.parse();
            let name = name.map_err(|error| CliError::WrongUse(error.to_string()))?;
            Ok(JobHost { name, slots: 1 })
        })
        .collect()
}

/// `HOST`, `HOST slots=N` as of Open MPI, with blanks around `=` or without, or `HOST:N` as of
/// MPICH.
fn line_of(line: &str) -> Result<JobHost, CliError> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut found = host(name)?;
    let mut slots_max = SLOTS_MAX;
    let spaced = rest.replace('=', " = ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    for option in words.chunks(3) {
        match option {
            ["slots", "=", count] => found.slots = slots(count, line)?,
            ["max_slots" | "max-slots", "=", count] => slots_max = slots(count, line)?,
            _ => {
                return Err(CliError::WrongUse(format!(
                    "the host file has `{}`: a line is HOST or HOST slots=N, and max_slots=N \
                     behind it is the most",
                    hythe_terminal::escaped(line)
                )));
            }
        }
    }
    found.slots = found.slots.min(slots_max);
    Ok(found)
}

fn host(text: &str) -> Result<JobHost, CliError> {
    let (name, count) = match text.split_once(':') {
        Some((name, count)) => (name, slots(count, text)?),
        None => (text, 1),
    };
    let name: HostName = name
        .parse()
        .map_err(|error: hythe_cluster::BadHostName| CliError::WrongUse(error.to_string()))?;
    Ok(JobHost { name, slots: count })
}

fn slots(text: &str, whole: &str) -> Result<u32, CliError> {
    let count = text.parse().ok();
    count
        .filter(|count| (1..=SLOTS_MAX).contains(count))
        .ok_or_else(|| {
            CliError::WrongUse(format!(
                "`{}`: a host has 1 to {SLOTS_MAX} slots",
                hythe_terminal::escaped(whole)
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_slots() {
        for (line, name, count) in [
            ("a", "a", 1),
            ("b:2", "b", 2),
            ("c.lan slots=7", "c.lan", 7),
            ("d\tslots = 2", "d", 2),
            ("e slots= 3 max_slots =4", "e", 3),
            ("f max-slots=2 slots=5", "f", 2),
            ("g max_slots=4", "g", 1),
        ] {
            let found = line_of(line).expect("a host");
            assert_eq!((found.name.as_str(), found.slots), (name, count));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts");
        let of_pvm = |text: &str| {
            std::fs::write(&path, text).expect("written");
            hosts_of_pvm(&path)
        };
        let found = of_pvm("# of PVM\n* ep=/opt/bin\nb sp=7\n&c\nd.lan\n").expect("sound");
        let names: Vec<&str> = found.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["b", "d.lan"]);
        for bad in ["a slots=2", "a:2", "-a"] {
            assert!(of_pvm(bad).is_err(), "{bad}");
        }
        let bad = [
            "a:0",
            "a:513",
            "a:x",
            "a slots=",
            "a max=3",
            "-a",
            "a,b",
            "a max_slots=x",
        ];
        for bad in bad
            .into_iter()
            .chain(["a slots 2", "a = slots", "a max_slots=0"])
        {
            assert!(line_of(bad).is_err(), "{bad}");
        }
        std::fs::write(&path, "# nobody\n\n").expect("written");
        let empty = hosts(&[], Some(&path)).expect_err("refused").to_string();
        assert!(empty.contains("names no host"), "{empty}");
        let nameless = host("").expect_err("refused").to_string();
        assert!(nameless.contains("an empty text is no name"), "{nameless}");
    }
}
