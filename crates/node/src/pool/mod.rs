//! A pool, open in this process: control file and regions mapped.

pub(crate) mod accounts;
pub(crate) mod directory;
pub(crate) mod files;
mod hidden;
pub(crate) mod introspect;
mod kernel_segments;
pub(crate) mod life;
pub(crate) mod liveness_socket;
mod making;
pub(crate) mod options;
mod other_version;
pub(crate) mod peers;
pub(crate) mod process;
mod region_files;
pub(crate) mod size_limit;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_abi::pool::REGIONS_MAX;
use hythe_memory::{Access, Mapped};
use hythe_pool::{
    Control, ObjectTable, PoolError, PrefaultOptions, RegionGeometry, RegionKind, Regions,
    WireRegionPlan,
};
use hythe_terminal::escaped;

use crate::error::Loss;
use crate::pool::files::{Place, PoolFiles};
use crate::pool::introspect::Snapshot;
use crate::pool::making::PrivateDirectory;
use crate::pool::peers::Peers;
use crate::{Liveness, NodeError, PoolOptions, prefault};

/// A pool that this process has open. Clones share it.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: PoolOptions,
    directory: OwnedFd,
    control: Control<Mapped>,
    /// Which file that is.
    control_place: Place,
    /// A loss that no mapping shows.
    noted_loss: OnceLock<Loss>,
    /// How many losses there were in this process when the pool was last found whole.
    losses_seen: AtomicU32,
    regions: Regions,
    maps: [OnceLock<Mapped>; REGIONS_MAX],
    /// The files of wire regions, open from their first use on.
    wire_files: [OnceLock<OwnedFd>; REGIONS_MAX],
    /// The links mapped so far, by region. Like a region a link stays as long as its pool.
    links: [OnceLock<Mapped>; REGIONS_MAX],
    /// Semaphores and message queues, from their first use on.
    objects: OnceLock<ObjectTable<Mapped>>,
    peers: Peers,
    /// Of a pool of this process alone: goes with the last handle.
    private: Option<PrivateDirectory>,
}

impl Pool {
    /// Opens a pool, or makes it if there is none. One of another layout version that no process
    /// uses is removed first, if it is the caller's and has no semaphores, queues or segments.
    ///
    /// # Errors
    /// No permission, no room, an unsafe directory; [`NodeError::OtherVersion`].
    pub fn open_or_create(options: &PoolOptions) -> Result<Self, NodeError> {
        let start = Instant::now();
        loop {
            let error = match Self::open(options) {
                Err(NodeError::NoSuchPool { .. }) => break,
                Err(error) if is_half_made(&error) => break,
                Err(error) => error,
                Ok(found) => return Ok(found),
            };
            // Another program replaces it: for a moment its files cannot be opened.
            let mut may_pass = is_leased(&error);
            let mut refusal = error;
            if let Some(versions) = other_version::versions(&refusal) {
                match other_version::remove_unused(options) {
                    Ok(()) => break,
                    Err(obstacle) => {
                        may_pass = obstacle.may_pass();
                        refusal = obstacle.into_error(versions, options);
                    }
                }
            }
            if !may_pass || start.elapsed() >= REPLACING {
                return Err(refusal);
            }
            hythe_sys::wait::sleep(Duration::from_millis(10));
        }
        Self::create(options)?;
        Self::open(options)
    }

    /// Opens an existing pool. Descriptors 0 to 2, where the program has closed them, become
    /// `/dev/null`, so that what it prints does not go into files of a pool.
    ///
    /// # Errors
    /// [`NodeError::NoSuchPool`]; no permission; a file that is not a pool's, or of another
    /// version.
    pub fn open(options: &PoolOptions) -> Result<Self, NodeError> {
        hythe_sys::standard_descriptors::occupy_closed();
        options.check_name()?;
        let user = user_directory(options)?;
        let directory = directory::open_pool(&user, options)?;
        Self::open_in(directory, options, None)
    }

    /// Opens the pool in this directory, which goes with it if it is private.
    pub(crate) fn open_in(
        directory: OwnedFd,
        options: &PoolOptions,
        private: Option<PrivateDirectory>,
    ) -> Result<Self, NodeError> {
        let (file, bytes) = directory::open_file(&directory, "control", true, options)?;
        let path = options.path().join("control");
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes < hythe_abi::PAGE_BYTES {
            return Err(
                PoolError::NotAPool(format!("{} has {bytes} bytes", escaped(&path))).into(),
            );
        }
        let control_place = Place::of(&directory::stat(&file, &path)?);
        let memory =
            Mapped::file(&file, 0, bytes, Access::Write).map_err(crate::error::map(path, bytes))?;
        let control = Control::open(memory)?;
        let regions = Regions::read(&control)?;
        let maps = Default::default();
        let pool = Self {
            shared: Arc::new(Shared {
                options: options.clone(),
                directory,
                control,
                control_place,
                noted_loss: OnceLock::new(),
                losses_seen: AtomicU32::new(0),
                regions,
                maps,
                wire_files: Default::default(),
                links: Default::default(),
                objects: OnceLock::new(),
                peers: Peers::default(),
                private,
            }),
        };
        pool.check_whole()?;
        Ok(pool)
    }

    /// How long a wait of this process looks at most before it sleeps.
    pub(crate) fn spin_limit(&self) -> std::time::Duration {
        crate::spin::limit(self.shared.options.spin)
    }

    /// Removes a pool that nobody takes part in, also one of another layout version.
    ///
    /// # Errors
    /// [`NodeError::NoSuchPool`], [`NodeError::InUse`], no permission.
    pub fn remove(options: &PoolOptions) -> Result<(), NodeError> {
        let living = Self::open(options).map(|pool| pool.living_members());
        match living {
            Ok(living) if !living.is_empty() => {
                return Err(NodeError::InUse {
                    name: options.name.clone(),
                    members: living,
                });
            }
            Err(error) if other_version::versions(&error).is_some() => {
                let members = other_version::users(options);
                if !members.is_empty() {
                    let name = options.name.clone();
                    return Err(NodeError::InUse { name, members });
                }
            }
            // A damaged pool, or a directory without one, can be removed all the same.
            Ok(_) | Err(NodeError::Pool(PoolError::NotAPool(_) | PoolError::Busy(_))) => {}
            Err(error) if is_half_made(&error) => {}
            Err(error) => return Err(error),
        }
        Self::remove_by_force(options)
    }

    /// Removes a pool whether or not somebody takes part: those who do keep their mappings, and
    /// find it lost ([`NodeError::PoolLost`]).
    ///
    /// # Errors
    /// [`NodeError::NoSuchPool`], no permission.
    pub fn remove_by_force(options: &PoolOptions) -> Result<(), NodeError> {
        options.check_name()?;
        let user = user_directory(options)?;
        directory::open_pool(&user, options)?;
        hidden::remove_pool(&user, options)?;
        hidden::sweep_hidden(&user, options);
        hidden::remove_if_empty(options);
        Ok(())
    }

    /// Names of this user's pools under the root of `options`.
    ///
    /// # Errors
    /// An unsafe or unreadable directory. No directory is no pools.
    pub fn list(options: &PoolOptions) -> Result<Vec<String>, NodeError> {
        let user = match directory::open_user_directory(options, false) {
            Ok(user) => user,
            Err(NodeError::File { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        directory::pools(&user, options)
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &PoolOptions {
        &self.shared.options
    }

    /// Does its name lead to it? No more once it was removed, or another pool has its name; never
    /// to a private one.
    #[must_use]
    pub fn is_found(&self) -> bool {
        PoolFiles::of(self.directory(), self.options()).is_ok_and(|files| files.are_there())
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.shared.options.path()
    }

    /// Who holds what, and what is going on.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.control(), self.regions())
    }

    /// A region's geometry, if the pool has it.
    #[must_use]
    pub fn region(&self, index: RegionIndex) -> Option<RegionGeometry> {
        // A region that cannot be read is not there for us; opening the pool has said why.
        let _ = self.shared.regions.refresh(&self.shared.control);
        self.shared.regions.region(index).cloned()
    }

    /// What is known of a channel at this moment, if there is one of that name.
    #[must_use]
    pub fn channel(&self, name: &str) -> Option<hythe_pool::ChannelInfo> {
        self.control().tables().find_channel(name)
    }

    /// The ports of all channels at this moment. What a subscriber missed counts though it has not
    /// looked since.
    #[must_use]
    pub fn ports(&self) -> Vec<hythe_pool::PortInfo> {
        let tables = self.control().tables();
        let mut ports: Vec<hythe_pool::PortInfo> = tables.ports().collect();
        tables.add_uncounted(&mut ports);
        ports
    }

    /// What a port had counted when it was last seen; one that is closed keeps it until its number
    /// is used again.
    #[must_use]
    pub fn last_statistics(&self, port: hythe_pool::PortIndex) -> hythe_pool::PortStatistics {
        self.control().tables().last_statistics(port)
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control<Mapped> {
        &self.shared.control
    }

    #[inline]
    pub(crate) fn regions(&self) -> &Regions {
        &self.shared.regions
    }

    /// The place of the table of semaphores and message queues.
    pub(crate) fn objects_place(&self) -> &OnceLock<ObjectTable<Mapped>> {
        &self.shared.objects
    }

    /// What the nodes of this process know of their peers by themselves.
    pub(crate) fn peers(&self) -> &Peers {
        &self.shared.peers
    }

    /// Of how many living peers the nodes of this process found the record changed: by a member
    /// that writes what is not its own.
    #[must_use]
    pub fn damaged_records(&self) -> u64 {
        self.peers().damaged()
    }

    /// Which file its control file is.
    pub(crate) fn control_place(&self) -> Place {
        self.shared.control_place
    }

    /// How many losses there were in this process when the pool was last found whole.
    pub(crate) fn losses_seen(&self) -> &AtomicU32 {
        &self.shared.losses_seen
    }

    /// Where a loss is noted that no mapping shows.
    pub(crate) fn noted_loss(&self) -> &OnceLock<Loss> {
        &self.shared.noted_loss
    }

    /// Is it of this process alone?
    pub(crate) fn is_private(&self) -> bool {
        self.shared.private.is_some()
    }

    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.shared.directory
    }

    /// The regions mapped so far.
    pub(crate) fn mapped_regions(&self) -> impl Iterator<Item = (usize, &Mapped)> {
        let maps = self.shared.maps.iter().enumerate();
        maps.filter_map(|(index, map)| Some((index, map.get()?)))
    }

    /// The link of a region, if it has been mapped.
    pub(crate) fn link(&self, region: RegionIndex) -> Option<&Mapped> {
        self.shared.links.get(usize::from(region.0))?.get()
    }

    /// Keeps the mapping of a link, or gives the one that another thread was quicker to make.
    pub(crate) fn keep_link(&self, region: RegionIndex, map: Mapped) -> Mapped {
        let place = self.shared.links.get(usize::from(region.0));
        place.map_or(map.clone(), |place| place.get_or_init(|| map).clone())
    }

    /// The slots of a region, mapped at first use at the latest.
    #[inline(always)]
    pub(crate) fn map(&self, index: RegionIndex) -> Result<&Mapped, NodeError> {
        match self.mapped(index) {
            Some(map) => Ok(map),
            None => self.map_first(index),
        }
    }

    /// The slots of a region, if they have been mapped.
    #[inline(always)]
    pub(crate) fn mapped(&self, index: RegionIndex) -> Option<&Mapped> {
        self.shared.maps.get(usize::from(index.0))?.get()
    }

    #[cold]
    fn map_first(&self, index: RegionIndex) -> Result<&Mapped, NodeError> {
        let unknown = || PoolError::NotAPool(format!("it has no region {}", index.0));
        let place = self
            .shared
            .maps
            .get(usize::from(index.0))
            .ok_or_else(unknown)?;
        self.shared.regions.refresh(&self.shared.control)?;
        let region = self.shared.regions.region(index).ok_or_else(unknown)?;
        let map = region_files::map(&self.shared.directory, region, &self.shared.options)
            .map_err(|error| self.unless_removed(error))?;
        // A slot of a wire region gets fresh pages with each lease, and until then may have none.
        if region.kind != RegionKind::Wire {
            prefault::treat(&map, self.prefault_options(), || self.region_path(index))?;
        }
        Ok(place.get_or_init(|| map))
    }

    /// What the pool's maker or the opener asked for.
    pub(crate) fn prefault_options(&self) -> PrefaultOptions {
        let (asked, own) = (self.control().prefault_options(), self.options());
        PrefaultOptions {
            prefault: asked.prefault || own.prefault,
            lock: asked.lock || own.lock,
        }
    }

    /// Maps the regions, and prefaults or locks the control file and Linux's slots as was asked
    /// for: before a node is used.
    pub(crate) fn prefault(&self) -> Result<(), NodeError> {
        let path = || self.path().join("control");
        let wanted = self.prefault_options();
        prefault::treat(self.control().memory(), wanted, path)?;
        // Mapping does the rest.
        match self.map(RegionIndex(0)) {
            // Who may use none of its slots may still take part.
            Err(NodeError::Permission { .. }) if !(wanted.prefault || wanted.lock) => {}
            mapped => drop(mapped?),
        }
        self.map_known();
        Ok(())
    }

    /// Maps the regions that there are by now, so that rights which the process gives up later are
    /// not missed. One that cannot be mapped is named when it is used; pages that are to be touched
    /// or locked are, then, too.
    pub(crate) fn map_known(&self) {
        let wanted = self.prefault_options();
        if wanted.prefault || wanted.lock {
            return;
        }
        // What cannot be read now is said at its use.
        let _ = self.shared.regions.refresh(&self.shared.control);
        for index in (0..REGIONS_MAX as u8).map(RegionIndex) {
            if self.shared.regions.region(index).is_some() {
                let _ = self.map(index);
            }
        }
    }

    /// Maps a region that is to be written: [`NodeError::Permission`] for who may only read.
    #[inline(always)]
    pub(crate) fn map_to_write(&self, index: RegionIndex) -> Result<&Mapped, NodeError> {
        let map = self.map(index)?;
        if map.access() == Access::Write {
            return Ok(map);
        }
        self.refuse_writing(index)
    }

    #[cold]
    fn refuse_writing(&self, index: RegionIndex) -> Result<&Mapped, NodeError> {
        let denied = std::io::ErrorKind::PermissionDenied.into();
        Err(directory::refused(
            "write",
            &self.region_path(index),
            denied,
        ))
    }

    /// The file of a region's slots.
    #[must_use]
    pub fn region_path(&self, index: RegionIndex) -> PathBuf {
        region_files::path_of(&self.shared.directory, index, &self.shared.options)
    }

    /// Makes the files of a core's region. What is there already was left by somebody who died over
    /// it.
    pub(crate) fn make_core_files(
        &self,
        region: RegionIndex,
        plan: &hythe_pool::CoreRegionPlan<'_>,
        file_bytes: u64,
    ) -> Result<(), NodeError> {
        let link = format!("link.{}", region.0);
        let own_link = (plan.link.offset == 0).then_some((link, u64::from(plan.link.bytes)));
        let registry = plan.segments.map(|_| {
            let name = format!("segments.{}", region.0);
            (name, hythe_abi::segments::FILE_BYTES as u64)
        });
        let files = std::iter::once((format!("region.{}", region.0), file_bytes))
            .chain(own_link)
            .chain(registry);
        for (name, bytes) in files {
            self.add_file(&name, bytes)?;
        }
        Ok(())
    }

    /// Adds a file for those who may use the pool: whoever made it has said who they are, and not
    /// who opened it.
    pub(crate) fn add_file(&self, name: &str, bytes: u64) -> Result<OwnedFd, NodeError> {
        self.add_as_permitted(|options| {
            self.forget_file(name);
            directory::make_file(&self.shared.directory, name, bytes, options)
        })
    }

    /// Adds the file of the region for network cards: on huge pages where region 0 is on them. What
    /// is there already was left by somebody who died over it.
    pub(crate) fn add_card_file(&self, region: RegionIndex, bytes: u64) -> Result<(), NodeError> {
        let (directory, own) = (&self.shared.directory, &self.shared.options);
        let Some(mount) = region_files::huge_mount(directory, own)? else {
            let name = format!("region.{}", region.0);
            return self.add_file(&name, bytes).map(drop);
        };
        let forget = || {
            if region_files::remove_one_elsewhere(directory, region, own) {
                self.forget_file(&format!("region.{}.at", region.0));
            }
        };
        let make = |options: &PoolOptions| {
            forget();
            region_files::make_huge(directory, region, &mount, (bytes, options))
        };
        self.add_as_permitted(make).inspect_err(|_| forget())
    }

    /// Opens the file of a region to be written, and says how long it is.
    pub(crate) fn open_region(&self, region: RegionIndex) -> Result<(OwnedFd, u64), NodeError> {
        let (directory, options) = (&self.shared.directory, &self.shared.options);
        let (file, bytes, _) = region_files::open(directory, region, true, options)?;
        Ok((file, bytes))
    }

    /// Has a file made with the permissions that the pool's maker gave.
    fn add_as_permitted<T>(
        &self,
        make: impl Fn(&PoolOptions) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let own = self.shared.options.clone();
        let here = rustix::fs::statat(
            &self.shared.directory,
            "region.0",
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        );
        let first = here.or_else(|_| rustix::fs::stat(self.region_path(RegionIndex(0))));
        let Ok(first) = first else {
            // Nobody but this process has the pool.
            return make(&own);
        };
        let own = own.mode(first.st_mode & 0o777);
        if first.st_gid == rustix::process::getegid().as_raw() {
            return make(&own);
        }
        match make(&own.clone().group(first.st_gid)) {
            // A container that does not know the group.
            Err(NodeError::NotInGroup { .. }) => make(&own),
            made => made,
        }
    }

    /// Makes the file of the wire region. What is there already was left by somebody who died over
    /// it.
    pub(crate) fn make_wire_file(
        &self,
        region: RegionIndex,
        plan: WireRegionPlan,
    ) -> Result<(), NodeError> {
        let name = format!("region.{}", region.0);
        self.add_file(&name, plan.bytes())
            .and_then(|made| {
                region_files::check_pages(&made, &self.path().join(&name), plan.slot_bytes)
            })
            .inspect_err(|_| self.forget_file(&name))
    }

    pub(crate) fn forget_file(&self, name: &str) {
        // Not there is what is hoped for.
        let _ = rustix::fs::unlinkat(&self.shared.directory, name, rustix::fs::AtFlags::empty());
    }

    /// The file of a wire region, as the network stack sends from it.
    ///
    /// # Errors
    /// [`NodeError::NotForTheWire`] for another region.
    pub(crate) fn wire_file(&self, index: RegionIndex) -> Result<&OwnedFd, NodeError> {
        let refused = NodeError::NotForTheWire { region: index };
        let Some(place) = self.shared.wire_files.get(usize::from(index.0)) else {
            return Err(refused);
        };
        if let Some(opened) = place.get() {
            return Ok(opened);
        }
        let wire = |region: &&RegionGeometry| region.kind == RegionKind::Wire;
        let region = self.regions().region(index).filter(wire).ok_or(refused)?;
        let (directory, options) = (&self.shared.directory, &self.shared.options);
        let ((opened, _, path), _) = region_files::open_as_permitted(directory, region, options)?;
        for class in &region.classes {
            region_files::check_pages(&opened, &path, class.slot_bytes)?;
        }
        Ok(place.get_or_init(|| opened))
    }

    fn living_members(&self) -> Vec<String> {
        self.control()
            .tables()
            .members()
            .filter(|member| !life::is_store(member) && self.liveness(member) != Liveness::Dead)
            .map(|member| format!("{} (pid {})", member.name, member.identity.pid))
            .collect()
    }
}

/// How long a program waits for others that look at, or replace, a pool of another version: each
/// takes milliseconds.
const REPLACING: Duration = Duration::from_secs(1);

/// Could a file not be opened because another program proves that the pool is not used?
fn is_leased(error: &NodeError) -> bool {
    let NodeError::File { source, .. } = error else {
        return false;
    };
    source.kind() == std::io::ErrorKind::WouldBlock
}

/// Has its directory no control file? A pool gets its name whole: a clean-up left that.
fn is_half_made(error: &NodeError) -> bool {
    let NodeError::File { source, .. } = error else {
        return false;
    };
    source.kind() == std::io::ErrorKind::NotFound
}

/// The user's directory, which is there if there is any pool.
fn user_directory(options: &PoolOptions) -> Result<OwnedFd, NodeError> {
    directory::open_user_directory(options, false).map_err(|error| match error {
        NodeError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            options.no_such_pool()
        }
        other => other,
    })
}
