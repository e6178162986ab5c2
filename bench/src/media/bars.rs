//! What the project wants of the media hop, so that a person sees at once which figures fall short. The document for machines has the
//! figures only.

use super::ratios::Ratio;
use crate::ipc::Bar;

/// From so many destinations on laying out is shared by enough.
const MANY: u16 = 16;

/// The bound of a ratio, if it has one.
pub(super) fn of_ratio(ratio: &Ratio) -> Option<Bar> {
    let bound = match (ratio.name.as_str(), ratio.destinations) {
        ("sendto/first_send by hythe/prepared: cpu", MANY..) => 20.0,
        ("sendto/first_send by hythe/prepared: cpu", _) => 15.0,
        ("sendto/first_send by hythe/first_send: cpu", _) => 5.0,
        ("sendto/first_send by hythe/headers: cpu", _) => 5.0,
        ("sendto/first_send by hythe/prepared: elapsed", 1) => 4.0,
        ("ffmpeg/first_send by hythe/first_send: cpu", _) => 20.0,
        ("gstreamer/first_send by hythe/first_send: cpu", _) => 20.0,
        _ => return None,
    };
    Some(Bar::AtLeast(bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_wanted_of_many_destinations() {
        let bar = |name: &str, destinations| {
            of_ratio(&Ratio {
                name: name.to_owned(),
                size_bytes: 1400,
                packets: 10_000,
                destinations,
                value: 1.0,
            })
        };
        let prepared = "sendto/first_send by hythe/prepared: cpu";
        assert_eq!(bar(prepared, 1), Some(Bar::AtLeast(15.0)));
        assert_eq!(bar(prepared, 16), Some(Bar::AtLeast(20.0)));
        assert_eq!(bar("sendto/first_send by gso/prepared: cpu", 1), None);
    }
}
