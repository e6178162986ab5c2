//! Whatever hosts of the realm may declare: for the bounded test, and for the fuzz target
//! `host_tokens`, which includes this file.

use super::known::Known;
use super::token;

/// More of them than an agent connects to are not told.
const TOLD_MAX: usize = 5_000;

/// Reads `bytes` as lines, each a token that comes (`+`), ends (`-`), is shown by a sweep (`*`), or
/// a name that the realm's list has. No panic; what is told of is bounded, and what is read is
/// written as it came.
pub(crate) fn play(bytes: &[u8]) {
    let (mut known, mut told) = (Known::default(), std::collections::BTreeSet::new());
    for line in String::from_utf8_lossy(bytes).lines().take(1_000) {
        let mut letters = line.chars();
        let act = letters.next();
        let read = token::parse(letters.as_str());
        if let Some(token) = &read {
            assert!(token.addresses.len() <= token::ADDRESSES_MAX);
            let (session, _) = token.rest.split_once('/').expect("it was read");
            let key = token::key(&token.host, session, 1, &token.addresses);
            let again = token::parse(&key).expect("its own");
            assert_eq!(
                (again.host, again.addresses),
                (token.host.clone(), token.addresses.clone())
            );
        }
        match (act, read) {
            (Some('+'), Some(token)) => known.add(&token),
            (Some('-'), Some(token)) => known.remove(&token),
            (Some('*'), Some(token)) => {
                let number = known.begin_sweep();
                known.add_swept(number, &token);
                known.end_sweep(number, line.len() % 2 == 0);
            }
            (Some('!'), _) => known.set_listed(letters.as_str().parse()),
            _ => {}
        }
        while let Some(event) = known.take() {
            use hythe_cluster::DirectoryEvent::{Gone, Seen};
            match event {
                Seen { host, .. } => drop(told.insert(host)),
                Gone { host } => drop(told.remove(&host)),
                _ => {}
            }
        }
        assert!(told.len() <= TOLD_MAX);
    }
    let _ = (known.refused(), known.is_incomplete());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the fuzz target, bounded.
    #[test]
    fn whatever_is_declared_is_bounded() {
        let talk = "+hythe/live/cam-1.lan/a1/10.0.0.1:7410,[fd77::1]:7410\n\
                    !cam-1.lan\n\
                    +hythe/live/cam-1.lan/b2/-\n\
                    -hythe/live/cam-1.lan/a1/10.0.0.1:7410,[fd77::1]:7410\n\
                    *hythe/live/hub/c3/192.0.2.1:1\n\
                    -hythe/live/nobody/a/-\n";
        let many: Vec<String> = (0..40)
            .map(|number| format!("+hythe/live/h{}/{number}/10.0.0.1:{number}", number % 3))
            .collect();
        let originals = [talk.as_bytes().to_vec(), many.join("\n").into_bytes()];
        hythe_testing::play(&originals, 20_000, |bytes| play(&bytes));
    }
}
