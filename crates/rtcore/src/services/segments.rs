//! Segments for a core: shmget(2) and its family, as methods of `core/services`.
//!
//! A core acts as its agent's user. What it has attached is kept here, one shadow for each
//! attachment, until it detaches or is dead.

use hythe_abi::core_services::{SEGMENT_REMOVED, SegmentStatus, method};
use hythe_abi::services::CallHeader;
use hythe_node::Pool;
use hythe_sys::system_v::{CREATE, EXCLUSIVE, NO_RESERVE, READ_ONLY};
use rustix::io::Errno;

use super::call::{Answer, Call};
use super::{Kind, Serving};
use crate::segment::{Access, CoreAttachment, CoreUser, SegmentError, Segments};

/// Bits of shmget(2) that a core may set: permissions, and these.
const GET_FLAGS: i32 = 0o777 | CREATE | EXCLUSIVE | NO_RESERVE;

/// The segments of one life of a core.
#[derive(Debug)]
pub(super) struct CoreSegments {
    /// None where its board has no area, as the error says.
    segments: Result<Segments, SegmentError>,
    user: CoreUser,
    /// With the task that attached it; 0: one that has no number.
    attached: Vec<(u32, CoreAttachment)>,
}

/// Why a call is refused.
enum Refusal {
    /// It makes no sense.
    Call(Errno),
    Segment(SegmentError),
}

impl From<SegmentError> for Refusal {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

/// What an earlier life of the core had attached, it has no more.
pub(super) fn forget_earlier(pool: &Pool, name: &str) -> Result<(), String> {
    match Segments::open(pool, Some(name)) {
        Err(SegmentError::NoArea { .. }) => Ok(()),
        opened => detach_all(&opened),
    }
}

fn detach_all(segments: &Result<Segments, SegmentError>) -> Result<(), String> {
    let detached = match segments {
        Ok(segments) => segments.detach_all(),
        Err(_) => Ok(()),
    };
    detached.map_err(|error| format!("what the core had attached stays reserved: {error}"))
}

impl CoreSegments {
    pub(super) fn begin(pool: &Pool, user: CoreUser) -> Self {
        Self {
            segments: Segments::open(pool, Some(user.name())),
            user,
            attached: Vec::new(),
        }
    }

    fn act(&mut self, call: &CallHeader) -> Result<Answer, Refusal> {
        let [first, second, third] = call.arguments;
        let is_set = call.method == method::SHM_SET;
        if call.bytes != 0 || (call.flags != 0 && !is_set) {
            return Err(Refusal::Call(Errno::INVAL));
        }
        let id = first.cast_signed();
        match call.method {
            method::SHM_GET => self.get(id, second as usize, third.cast_signed()),
            method::SHM_ATTACH => self.attach(call.task, id, second.cast_signed()),
            method::SHM_DETACH => self.detach(call.task, id),
            method::SHM_STAT => self.status(id),
            method::SHM_SET => self.set(id, [second, third], call.flags),
            _ => Ok(self.segments()?.remove(id).map(|()| Answer::default())?),
        }
    }

    fn segments(&self) -> Result<&Segments, Refusal> {
        self.segments
            .as_ref()
            .map_err(|error| Refusal::Call(Errno::from_raw_os_error(error.errno())))
    }

    fn get(&self, key: i32, bytes: usize, flags: i32) -> Result<Answer, Refusal> {
        if flags & !GET_FLAGS != 0 {
            return Err(Refusal::Call(Errno::INVAL));
        }
        let id = self.segments()?.get_for(&self.user, (key, bytes, flags))?;
        Ok(Answer::values([id.cast_unsigned(), 0, 0, 0, 0]))
    }

    fn attach(&mut self, task: u32, id: i32, flags: i32) -> Result<Answer, Refusal> {
        let access = match flags {
            0 => Access::Write,
            READ_ONLY => Access::Read,
            _ => return Err(Refusal::Call(Errno::INVAL)),
        };
        let count = self.attached.len();
        let attached = self
            .segments()?
            .attach_for(&self.user, count, (id, access))?;
        let bytes = attached.bytes as u64;
        // An area has less than 2^32 pages: its size is told to cores in 32 bits.
        let page = attached.first_page as u32;
        self.attached.push((task, attached));
        Ok(Answer::values([
            page,
            bytes as u32,
            (bytes >> 32) as u32,
            0,
            0,
        ]))
    }

    /// One of the task's own, else one of another task.
    fn detach(&mut self, task: u32, id: i32) -> Result<Answer, Refusal> {
        let mut all = self.attached.iter();
        let own = all.position(|(by, attached)| (*by, attached.id) == (task, id));
        let mut all = self.attached.iter();
        let place = own.or_else(|| all.position(|(_, attached)| attached.id == id));
        let place = place.ok_or(Refusal::Call(Errno::INVAL))?;
        self.segments()?;
        self.detach_at(place)?;
        Ok(Answer::default())
    }

    fn detach_at(&mut self, place: usize) -> Result<(), Refusal> {
        let (task, attached) = self.attached.swap_remove(place);
        let detached = match &self.segments {
            Ok(segments) => segments.detach_for(&self.user, attached),
            Err(_) => Ok(()),
        };
        detached.map_err(|(attached, error)| {
            self.attached.push((task, attached));
            Refusal::Segment(error)
        })
    }

    fn status(&self, id: i32) -> Result<Answer, Refusal> {
        let (status, place) = self.segments()?.status_for(id)?;
        let removed = if status.is_removed {
            SEGMENT_REMOVED
        } else {
            0
        };
        let said = SegmentStatus {
            key: status.key,
            owner: [status.user, status.group],
            creator: [status.creator_user, status.creator_group],
            mode: status.mode | removed,
            made_on: place.is_made_on_core.into(),
            page: place.page as u32,
            bytes: status.bytes as u64,
            times: [status.attach_time, status.detach_time, status.changed],
            attached: [status.attached as u32, place.attached_core as u32],
            processes: [status.creator, status.last_process].map(i32::cast_unsigned),
            order: place.order,
        };
        Ok(Answer::bytes(&said.to_bytes()))
    }

    fn set(&self, id: i32, owner: [u32; 2], mode: u32) -> Result<Answer, Refusal> {
        if mode & !0o777 != 0 {
            return Err(Refusal::Call(Errno::INVAL));
        }
        let [user, group] = owner;
        self.segments()?.change(id, user, group, mode)?;
        Ok(Answer::default())
    }
}

impl Kind for CoreSegments {
    fn has(&self, method: u32) -> bool {
        (method::SHM_GET..=method::SHM_REMOVE).contains(&method)
    }

    fn serve(&mut self, call: Call, at: &mut Serving<'_>) {
        let answer = self.act(call.header()).unwrap_or_else(|refusal| {
            let number = match &refusal {
                Refusal::Call(number) => *number,
                Refusal::Segment(error) => Errno::from_raw_os_error(error.errno()),
            };
            if let Refusal::Segment(error) = refusal
                && is_worth_a_line(number)
            {
                at.notes
                    .add(&format!("a segment was refused to the core: {error}"));
            }
            Answer::refused(number)
        });
        call.answer(&answer);
    }

    fn task_ended(&mut self, task: u32) -> String {
        let mut count = 0;
        let is_its = |(by, _): &(u32, CoreAttachment)| *by == task;
        while let Some(place) = self.attached.iter().position(is_its) {
            if self.detach_at(place).is_err() {
                break;
            }
            count += 1;
        }
        match count {
            0 => String::new(),
            count => format!("{count} attached segments"),
        }
    }

    fn forget(&mut self) -> Result<(), String> {
        // The kernel first: what it let go is free when the table is brought in line.
        self.attached.clear();
        detach_all(&self.segments)
    }
}

/// What the number does not tell: what is free, which file, which key.
fn is_worth_a_line(number: Errno) -> bool {
    !matches!(
        number,
        Errno::NOENT | Errno::EXIST | Errno::ACCESS | Errno::INVAL | Errno::IDRM
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_node::hop::HopNode as _;
    use hythe_node::{
        CoreRegionPlan, LinkPlace, Node, PoolOptions, SegmentPlace, SlotClass, own_identity,
    };
    use hythe_sys::system_v::PRIVATE;

    const AREA: u64 = 1 << 20;

    /// A pool with an area, without a core.
    struct Fixture {
        root: std::path::PathBuf,
        segments: CoreSegments,
    }

    impl Fixture {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let root = std::path::PathBuf::from(format!("/dev/shm/hythe-services-{name}-{id}"));
            let options = PoolOptions::new("rtcore").root(&root).bytes(12 << 20);
            let pool = Pool::open_or_create(&options).expect("pool");
            let node = Node::join(&pool, "agent").expect("joins");
            let slots = [SlotClass {
                slot_bytes: 1024,
                count: 4,
                first: 0,
                offset: 0,
            }];
            let place = |bytes, offset| SegmentPlace { offset, bytes };
            let plan = CoreRegionPlan {
                name: "core",
                bytes: 4096,
                classes: &slots,
                link: LinkPlace {
                    bytes: 4096,
                    offset: 0,
                },
                segments: Some(place(AREA, AREA)),
            };
            node.add_core_region(&plan, 2 * AREA).expect("added");
            let user = CoreUser::new("core", own_identity());
            let segments = CoreSegments::begin(&pool, user);
            Self { root, segments }
        }

        fn act(&mut self, method: u32, arguments: [u32; 3]) -> Result<Answer, Errno> {
            self.with(CallHeader {
                method,
                arguments,
                ..CallHeader::default()
            })
        }

        fn with(&mut self, call: CallHeader) -> Result<Answer, Errno> {
            self.segments.act(&call).map_err(|refusal| match refusal {
                Refusal::Call(number) => number,
                Refusal::Segment(error) => Errno::from_raw_os_error(error.errno()),
            })
        }

        fn make(&mut self) -> u32 {
            let wish = [PRIVATE.cast_unsigned(), 1, (CREATE | 0o600).cast_unsigned()];
            let made = self.act(method::SHM_GET, wish).expect("made");
            made.first_value()
        }

        fn listed(&self) -> crate::segment::BoardSegments {
            let segments = self.segments.segments.as_ref().expect("an area");
            segments.list().expect("listed").remove(0)
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = self.segments.forget();
            for left in self.listed().segments {
                let _ = self.segments.segments().map(|all| all.remove(left.id));
            }
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn core_has_at_most_256_attachments_and_none_after_end() {
        let mut fixture = Fixture::new("many");
        let id = fixture.make();
        for _ in 0..256 {
            fixture
                .act(method::SHM_ATTACH, [id, 0, 0])
                .expect("attached");
        }
        let more = fixture.act(method::SHM_ATTACH, [id, 0, 0]);
        assert_eq!(more, Err(Errno::NOMEM));
        fixture
            .act(method::SHM_DETACH, [id, 0, 0])
            .expect("detached");
        fixture
            .act(method::SHM_ATTACH, [id, 0, 0])
            .expect("attached again");
        assert_eq!(fixture.listed().segments[0].attached_core, 256);
        fixture
            .act(method::SHM_REMOVE, [id, 0, 0])
            .expect("removed");
        fixture.segments.forget().expect("forgotten");
        assert_eq!(fixture.listed().free_bytes, AREA);
        let gone = fixture.act(method::SHM_DETACH, [id, 0, 0]);
        assert_eq!(gone, Err(Errno::INVAL));
    }

    /// As a kernel does with the shadows of an agent that dies. The core is a process that lives.
    #[test]
    fn pages_stay_a_living_core_s_when_its_agent_has_died() {
        for next_agent_comes in [false, true] {
            let mut fixture = Fixture::new("outlives");
            let mut core = std::process::Command::new("sleep");
            let mut core = core.arg("600").spawn().expect("sleep");
            let identity = hythe_node::identity_of(core.id()).expect("it lives");
            fixture.segments.user = CoreUser::new("core", identity);
            let id = fixture.make();
            fixture
                .act(method::SHM_ATTACH, [id, 0, 0])
                .expect("attached");
            fixture
                .act(method::SHM_REMOVE, [id, 0, 0])
                .expect("removed");
            assert_eq!(fixture.listed().segments.len(), 1);
            fixture.segments.attached.clear();
            // The kernel's segment is gone: nobody finds it, and nobody gets its page.
            assert_eq!(fixture.listed().segments.len(), 0);
            assert_eq!(fixture.listed().free_bytes, AREA - 4096);
            let refused = fixture.act(method::SHM_ATTACH, [id, 0, 0]);
            assert_eq!(refused, Err(Errno::INVAL));
            let all = [0, AREA as u32, CREATE.cast_unsigned()];
            assert_eq!(fixture.act(method::SHM_GET, all), Err(Errno::NOSPC));
            if next_agent_comes {
                fixture.segments.forget().expect("cleared");
                assert_eq!(fixture.listed().free_bytes, AREA);
            }
            core.kill().expect("killed");
            core.wait().expect("reaped");
            assert_eq!(fixture.listed().free_bytes, AREA);
        }
    }

    #[test]
    fn what_no_call_says_is_refused() {
        let mut fixture = Fixture::new("words");
        let id = fixture.make();
        for method in method::SHM_GET..=method::SHM_REMOVE {
            let arguments = [id, 0, 0];
            let call = CallHeader {
                method,
                arguments,
                ..CallHeader::default()
            };
            let bytes = CallHeader { bytes: 4, ..call };
            assert_eq!(fixture.with(bytes), Err(Errno::INVAL), "{method:#x}");
            let flags = CallHeader {
                flags: 0o1000,
                ..call
            };
            assert_eq!(fixture.with(flags), Err(Errno::INVAL), "{method:#x}");
        }
        for size in [0, AREA as u32 + 1, u32::MAX] {
            let wish = [0, size, CREATE.cast_unsigned()];
            assert_eq!(fixture.act(method::SHM_GET, wish), Err(Errno::INVAL));
        }
        for bit in (9..32).filter(|bit| GET_FLAGS >> bit & 1 == 0) {
            let wish = [0, 1, CREATE.cast_unsigned() | 1 << bit];
            let refused = fixture.act(method::SHM_GET, wish);
            assert_eq!(refused, Err(Errno::INVAL), "bit {bit}");
        }
        for flags in [1, 2, 0o20000, u32::MAX] {
            let refused = fixture.act(method::SHM_ATTACH, [id, flags, 0]);
            assert_eq!(refused, Err(Errno::INVAL), "{flags:#x}");
        }
        assert_eq!(fixture.listed().segments.len(), 1);
        assert_eq!(fixture.listed().segments[0].attached_core, 0);
    }
}
