//! Mailboxes: messages that tasks put down under a name, for any other.

use std::collections::BTreeMap;

use super::protocol::MailboxClass;
use crate::code::Code;
use crate::tid::Tid;

/// `PvmMbox*` flags of `pvm3.h`.
const PERSISTENT: i32 = 1;
const MULTI_INSTANCE: i32 = 2;
const OVERWRITABLE: i32 = 4;
const FIRST_AVAILABLE: i32 = 8;
const READ_AND_DELETE: i32 = 16;
const WAIT: i32 = 32;
/// A direct index stands behind the flags.
const DIRECT_SHIFT: u32 = 10;
const FLAGS: i32 = (1 << DIRECT_SHIFT) - 1;

/// All that lies in mailboxes at a time.
const BYTES_MAX: usize = 256 << 20;
const ENTRIES_MAX: usize = 1 << 16;
const NAME_BYTES_MAX: usize = 4096;

#[derive(Debug)]
struct Entry {
    /// `None`: it is gone.
    owner: Option<Tid>,
    flags: i32,
    message: Vec<u8>,
}

/// What became of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Message(Vec<u8>),
    Refused(Code),
    /// It was asked to wait until there is one.
    Waits,
}

/// What lies under a name.
#[derive(Debug)]
struct Class {
    /// Names are shown in the order in which they came.
    number: u64,
    entries: BTreeMap<i32, Entry>,
}

#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    classes: BTreeMap<String, Class>,
    /// How many names there have been.
    numbered: u64,
    bytes: usize,
    entries: usize,
}

impl Mailboxes {
    /// Puts a message down: its number.
    pub(super) fn put(
        &mut self,
        owner: Tid,
        class: &str,
        flags: i32,
        message: Vec<u8>,
    ) -> Result<i32, Code> {
        if class.is_empty() || class.len() > NAME_BYTES_MAX || flags < 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let direct = flags >> DIRECT_SHIFT;
        let flags = flags & FLAGS;
        let entries = self.classes.get(class).map(|class| &class.entries);
        let index = match entries {
            None => direct,
            Some(entries) => Self::place(entries, owner, direct, flags)?,
        };
        let replaced = entries.and_then(|entries| entries.get(&index));
        let replaced = replaced.map(|entry| entry.message.len());
        let bytes = self.bytes - replaced.unwrap_or(0) + message.len();
        if bytes > BYTES_MAX || replaced.is_none() && self.entries == ENTRIES_MAX {
            return Err(Code::OUT_OF_RESOURCES);
        }
        self.bytes = bytes;
        self.entries += usize::from(replaced.is_none());
        let entry = Entry {
            owner: Some(owner),
            flags,
            message,
        };
        let class = self.classes.entry(class.to_owned()).or_insert_with(|| {
            self.numbered += 1;
            Class {
                number: self.numbered,
                entries: BTreeMap::new(),
            }
        });
        class.entries.insert(index, entry);
        Ok(index)
    }

    /// Where an entry goes in a class that has some.
    fn place(
        entries: &BTreeMap<i32, Entry>,
        owner: Tid,
        direct: i32,
        flags: i32,
    ) -> Result<i32, Code> {
        let may_replace =
            |entry: &Entry| entry.flags & OVERWRITABLE != 0 || entry.owner == Some(owner);
        if direct > 0
            && entries
                .get(&direct)
                .is_none_or(|entry| entry.flags & OVERWRITABLE != 0)
        {
            return Ok(direct);
        }
        if flags & MULTI_INSTANCE != 0 {
            let free = (direct..i32::MAX).find(|index| !entries.contains_key(index));
            return free.ok_or(Code::OUT_OF_RESOURCES);
        }
        match entries.get(&0) {
            Some(entry) if !may_replace(entry) => Err(Code::DENIED),
            _ => Ok(0),
        }
    }

    /// Reads a message, and takes it away if that was asked for.
    pub(super) fn take(&mut self, reader: Tid, class: &str, index: i32, flags: i32) -> Taken {
        if class.is_empty() || class.len() > NAME_BYTES_MAX || index < 0 || flags < 0 {
            return Taken::Refused(Code::BAD_PARAMETER);
        }
        let entries = self.classes.get(class).map(|class| &class.entries);
        let mut behind = entries
            .into_iter()
            .flat_map(|entries| entries.range(index..));
        let found = behind
            .next()
            .filter(|(found, _)| flags & FIRST_AVAILABLE != 0 || **found == index);
        let Some((&found, entry)) = found else {
            return match flags & WAIT != 0 {
                true => Taken::Waits,
                false => Taken::Refused(Code::NOT_FOUND),
            };
        };
        if flags & READ_AND_DELETE == 0 {
            return Taken::Message(entry.message.clone());
        }
        match self.delete(reader, class, found) {
            Ok(message) => Taken::Message(message),
            Err(code) => Taken::Refused(code),
        }
    }

    /// Takes a message away.
    pub(super) fn delete(&mut self, task: Tid, class: &str, index: i32) -> Result<Vec<u8>, Code> {
        if class.is_empty() || index < 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let found = self.classes.get_mut(class).ok_or(Code::NOT_FOUND)?;
        let entries = &mut found.entries;
        let entry = entries.get(&index).ok_or(Code::NOT_FOUND)?;
        let is_locked = entry.flags & OVERWRITABLE == 0;
        if is_locked && entry.owner.is_some_and(|owner| owner != task) {
            return Err(Code::DENIED);
        }
        let removed = entries.remove(&index).ok_or(Code::NOT_FOUND)?;
        if entries.is_empty() {
            self.classes.remove(class);
        }
        self.bytes -= removed.message.len();
        self.entries -= 1;
        Ok(removed.message)
    }

    /// A task is gone: what it left goes, too, but for what is to stay.
    pub(super) fn forget(&mut self, task: Tid) {
        let (bytes, entries) = (&mut self.bytes, &mut self.entries);
        self.classes.retain(|_, class| {
            class.entries.retain(|_, entry| {
                if entry.owner != Some(task) {
                    return true;
                }
                entry.owner = None;
                let stays = entry.flags & PERSISTENT != 0;
                if !stays {
                    *bytes -= entry.message.len();
                    *entries -= 1;
                }
                stays
            });
            !class.entries.is_empty()
        });
    }

    /// What there is, of names that match.
    pub(super) fn classes(&self, pattern: &str) -> Vec<MailboxClass> {
        let matching = self.classes.iter();
        let mut matching: Vec<_> = matching
            .filter(|(name, _)| matches(pattern, name))
            .collect();
        matching.sort_by_key(|(_, class)| class.number);
        let class = |(name, class): (&String, &Class)| MailboxClass {
            name: name.clone(),
            entries: class
                .entries
                .iter()
                .map(|(index, entry)| (*index, entry.owner.map_or(0, Tid::number), entry.flags))
                .collect(),
        };
        matching.into_iter().map(class).collect()
    }
}

/// As PVM 3.4.6 does, whose manual speaks of regular expressions: what stands between stars is in
/// the name, one behind the other, anywhere.
fn matches(pattern: &str, name: &str) -> bool {
    let mut left = name;
    pattern.split('*').all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_index_that_is_taken_is_the_next_free_one() {
        let mut boxes = Mailboxes::default();
        let one = Tid::task(crate::tid::FIRST_HOST, 1).expect("in range");
        let mut put = |index: i32| {
            let flags = MULTI_INSTANCE | index << DIRECT_SHIFT;
            boxes.put(one, "a", flags, vec![1])
        };
        assert_eq!(
            [put(0), put(3), put(3), put(3)],
            [Ok(0), Ok(3), Ok(4), Ok(5)]
        );
        assert_eq!(put(0), Ok(1));
    }

    fn task(local: u32) -> Tid {
        Tid::task(crate::tid::FIRST_HOST, local).expect("in range")
    }

    fn taken(boxes: &mut Mailboxes, class: &str, index: i32, flags: i32) -> Taken {
        boxes.take(task(9), class, index, flags)
    }

    #[test]
    fn locked_entry_is_its_owners() {
        let mut boxes = Mailboxes::default();
        assert_eq!(boxes.put(task(1), "a", 0, vec![1]), Ok(0));
        assert_eq!(boxes.put(task(2), "a", 0, vec![2]), Err(Code::DENIED));
        assert_eq!(boxes.put(task(1), "a", 0, vec![1]), Ok(0), "its own");
        assert_eq!(boxes.delete(task(2), "a", 0), Err(Code::DENIED));
        let read = taken(&mut boxes, "a", 0, READ_AND_DELETE);
        assert_eq!(read, Taken::Refused(Code::DENIED));
        assert_eq!(taken(&mut boxes, "a", 0, 0), Taken::Message(vec![1]));
        assert_eq!(
            taken(&mut boxes, "a", 1, 0),
            Taken::Refused(Code::NOT_FOUND)
        );
        assert_eq!(boxes.delete(task(1), "a", 0), Ok(vec![1]));
        assert_eq!(taken(&mut boxes, "a", 0, WAIT), Taken::Waits);
        assert_eq!((boxes.bytes, boxes.entries), (0, 0));
    }

    #[test]
    fn entries_of_one_name_are_numbered() {
        let mut boxes = Mailboxes::default();
        for wanted in 0..3 {
            let put = boxes.put(task(1), "m", MULTI_INSTANCE, vec![wanted as u8]);
            assert_eq!(put, Ok(wanted));
        }
        assert_eq!(boxes.delete(task(1), "m", 1), Ok(vec![1]));
        let next = taken(&mut boxes, "m", 1, FIRST_AVAILABLE);
        assert_eq!(next, Taken::Message(vec![2]));
        assert_eq!(boxes.put(task(2), "m", MULTI_INSTANCE, vec![7]), Ok(1));
        // As PVM does: one that is not overwritable is left alone, one that is missing is made.
        let direct = 2 << DIRECT_SHIFT | MULTI_INSTANCE;
        assert_eq!(boxes.put(task(1), "m", direct, vec![8]), Ok(3));
        let missing = 9 << DIRECT_SHIFT | MULTI_INSTANCE | OVERWRITABLE;
        assert_eq!(boxes.put(task(1), "m", missing, vec![5]), Ok(9));
        assert_eq!(boxes.put(task(2), "m", missing, vec![6]), Ok(9));
        assert_eq!(taken(&mut boxes, "m", 9, 0), Taken::Message(vec![6]));
    }

    #[test]
    fn what_is_overwritable_is_anybodys() {
        let mut boxes = Mailboxes::default();
        assert_eq!(boxes.put(task(1), "o", OVERWRITABLE, vec![1]), Ok(0));
        assert_eq!(boxes.put(task(2), "o", OVERWRITABLE, vec![2]), Ok(0));
        let read = taken(&mut boxes, "o", 0, READ_AND_DELETE);
        assert_eq!(read, Taken::Message(vec![2]));
    }

    #[test]
    fn end_takes_all_but_what_is_to_stay() {
        let mut boxes = Mailboxes::default();
        boxes.put(task(1), "goes", 0, vec![1]).expect("new");
        boxes
            .put(task(1), "stays", PERSISTENT, vec![2])
            .expect("new");
        boxes.put(task(2), "other", 0, vec![3]).expect("new");
        boxes.forget(task(1));
        let left = boxes.classes("*");
        let names: Vec<&str> = left.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["stays", "other"], "as they came");
        assert_eq!(left[0].entries, [(0, 0, PERSISTENT)]);
        assert_eq!((boxes.bytes, boxes.entries), (2, 2));
        // Nobody's, so anybody may.
        assert_eq!(boxes.delete(task(3), "stays", 0), Ok(vec![2]));
    }

    #[test]
    fn limits_hold() {
        let mut boxes = Mailboxes::default();
        let big = vec![0; BYTES_MAX];
        assert_eq!(boxes.put(task(1), "a", 0, big), Ok(0));
        let full = Err(Code::OUT_OF_RESOURCES);
        assert_eq!(boxes.put(task(1), "b", 0, vec![1]), full);
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        for class in ["", &long] {
            assert_eq!(
                boxes.put(task(1), class, 0, vec![]),
                Err(Code::BAD_PARAMETER)
            );
        }
    }

    #[test]
    fn what_stands_between_stars_is_in_the_name_in_order() {
        for (pattern, name, is_match) in [
            ("*", "a", true),
            ("", "a", true),
            ("ab", "ab", true),
            ("ab", "xabc", true),
            ("ab", "acb", false),
            ("a*", "bac", true),
            ("*c", "cab", true),
            ("a*b*c", "x1a1b2cx", true),
            ("a*b*c", "a1c", false),
            ("a*b", "ba", false),
            ("a*a", "a", false),
            ("a*bab", "aabab", true),
            ("a.c", "abc", false),
            ("[a]", "a", false),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
