//! What tasks print, as a part says it to the runner.

use super::super::part_protocol::link::PartLink;
use super::super::part_protocol::message::FromPart;
use super::super::running::Running;

/// Read at one look, of one stream.
const READ_BYTES: usize = 16 << 10;
/// Of output in one message: a little less than the longest.
const OUTPUT_BYTES_MAX: usize = 60_000;

/// Reads once what a task prints on one of its streams, and says it. Returns how many bytes that
/// were; `None`: nothing for now, or nothing any more.
pub(super) fn pass_on(
    task: &mut Running,
    is_error: bool,
    whole_lines: bool,
    link: &mut PartLink,
) -> Option<usize> {
    let mut bytes = [0; READ_BYTES];
    let printed = &mut task.printed[usize::from(is_error)];
    // The runner, which has those of all hosts, cuts it into lines.
    let (printed, read) = printed.read_uncut(&mut bytes, whole_lines)?;
    for bytes in pieces(&printed) {
        link.say(&FromPart::Output {
            task: task.role.id,
            is_error,
            bytes: bytes.to_vec(),
        });
    }
    Some(read)
}

/// Cuts output into pieces that fit a message, at the ends of lines where it can.
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let most = bytes.len().min(OUTPUT_BYTES_MAX);
        let line = bytes[..most].iter().rposition(|byte| *byte == b'\n');
        let cut = if most == bytes.len() {
            most
        } else {
            line.map_or(most, |end| end + 1)
        };
        let (now, later) = bytes.split_at(cut);
        bytes = later;
        (!now.is_empty()).then_some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_at_the_ends_of_lines() {
        let mut text = vec![b'a'; OUTPUT_BYTES_MAX - 10];
        text.push(b'\n');
        text.extend(vec![b'b'; OUTPUT_BYTES_MAX + 5]);
        let cut: Vec<usize> = pieces(&text).map(<[u8]>::len).collect();
        assert_eq!(cut, [OUTPUT_BYTES_MAX - 9, OUTPUT_BYTES_MAX, 5]);
        assert_eq!(pieces(b"").count(), 0);
        assert_eq!(pieces(b"ab").collect::<Vec<_>>(), [b"ab"]);
    }
}
