//! Reading ahead on a real disk: exactly what a pack lists, within the budget, and around every
//! kind of trouble.
//!
//! Never asks how long it took.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::{Disk, Fake, drop_pages, pack, resident, run, sums_up};
use hythe_preload::pack::PAGE_BYTES;
use hythe_preload::replay::{Budget, Method, Options, Outcome, Priority, Stopped, replay};
use hythe_testing::count_pages;

const METHODS: [Option<Method>; 4] = [
    None,
    Some(Method::Readahead),
    Some(Method::Read),
    Some(Method::Populate),
];

fn by(method: Option<Method>) -> Options {
    Options {
        method,
        ..Options::default()
    }
}

fn budget(pages: u64) -> Options {
    Options {
        budget: Budget::Bytes(pages * PAGE_BYTES),
        ..Options::default()
    }
}

#[test]
fn every_method_loads_exactly_the_extents() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        let (a, b) = (disk.file("a", 300), disk.file("b", 20));
        let pack = pack(
            &[&a, &b],
            &[(0, 40, 70), (1, 3, 1), (0, 200, 5), (1, 19, 1)],
        );
        for method in METHODS {
            for threads in [None, std::num::NonZero::new(3)] {
                drop_pages(&a);
                drop_pages(&b);
                let done = run(
                    &pack,
                    &Options {
                        threads,
                        ..by(method)
                    },
                );
                let wanted: Vec<u32> = (40..110).chain(200..205).collect();
                assert_eq!(resident(&a), wanted, "{method:?}");
                assert_eq!(resident(&b), [3, 19], "{method:?}");
                assert_eq!(done.pages.loaded, 77, "{done:?}");
                assert_eq!(done.stopped, Stopped::Done);
                assert_eq!(done.file_systems.len(), 1);
                assert_eq!(done.file_systems[0].kind, "ext4");
            }
        }
    });
}

#[test]
fn ext4_is_found_to_honour_readahead_and_read_by_address() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 64);
    let done = run(&pack(&[&file], &[(0, 0, 64)]), &Options::default());
    let system = &done.file_systems[0];
    assert_eq!(system.method, Method::Readahead, "{system:?}");
    assert!(system.why.contains("31 of 31"), "{system:?}");
    assert!(system.by_address, "{system:?}");
}

#[test]
fn last_page_that_is_not_full_is_loaded() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        for method in METHODS {
            let path = disk.file("a", 3);
            File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(2 * PAGE_BYTES + 1))
                .expect("own");
            drop_pages(&path);
            let done = run(&pack(&[&path], &[(0, 1, 2)]), &by(method));
            assert_eq!(
                (done.pages.loaded, resident(&path)),
                (2, vec![1, 2]),
                "{done:?}"
            );
        }
    });
}

#[test]
fn budget_takes_the_front_of_the_pack_to_the_page() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        let (a, b) = (disk.file("a", 100), disk.file("b", 100));
        // Against the order of the device, so that only the pack's order can be what counts.
        let pack = pack(&[&b, &a], &[(0, 50, 30), (1, 60, 20), (0, 0, 10)]);
        let done = run(&pack, &budget(41));
        assert_eq!(resident(&b), (50..80).collect::<Vec<u32>>());
        assert_eq!(resident(&a), (60..71).collect::<Vec<u32>>());
        assert_eq!((done.pages.loaded, done.pages.over_budget), (41, 19));
        assert_eq!(done.stopped, Stopped::Budget);
        assert_eq!(done.budget_bytes, 41 * PAGE_BYTES);
    });
}

#[test]
fn what_is_there_already_is_not_charged() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        let file = disk.file("a", 100);
        run(&pack(&[&file], &[(0, 10, 20)]), &Options::default());
        let done = run(&pack(&[&file], &[(0, 0, 60)]), &budget(15));
        let wanted: Vec<u32> = (0..35).collect();
        assert_eq!(resident(&file), wanted);
        assert_eq!((done.pages.already_there, done.pages.loaded), (20, 15));
        let again = run(&pack(&[&file], &[(0, 0, 35)]), &budget(0));
        assert_eq!(again.pages.already_there, 35);
        assert_eq!(again.stopped, Stopped::Done);
    });
}

#[test]
fn scarce_memory_stops_it_at_once() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        for method in METHODS {
            let file = disk.file("a", 2000);
            let mut memory = Fake {
                looks: 5,
                then: || Some("scarce, says the test".to_owned()),
            };
            let pack = pack(&[&file], &[(0, 0, 2000)]);
            let done = replay(&pack, &by(method), &mut memory, &|_| {}).expect("a root");
            sums_up(&done);
            // Four looks let something through; the first was before anything.
            assert!(
                resident(&file).iter().all(|page| *page < 4 * 32),
                "{done:?}"
            );
            assert!(done.pages.not_reached >= 2000 - 4 * 32, "{done:?}");
            assert_eq!(done.pages.failed, 0, "{done:?}");
            assert!(matches!(&done.stopped, Stopped::Pressure(why) if why.contains("the test")));
        }
    });
}

#[test]
fn memory_that_is_scarce_from_the_start_lets_nothing_through() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        let file = disk.file("a", 50);
        let mut memory = Fake {
            looks: 1,
            then: || Some("scarce".to_owned()),
        };
        let pack = pack(&[&file], &[(0, 0, 50)]);
        let done = replay(&pack, &Options::default(), &mut memory, &|_| {}).expect("a root");
        sums_up(&done);
        assert_eq!(resident(&file), [] as [u32; 0]);
        assert_eq!(done.pages.not_reached, 50);
    });
}

fn reason(done: &Outcome, path: &Path) -> String {
    let name = path.to_string_lossy();
    let found = done.changed.iter().find(|changed| changed.path == name);
    found.map_or_else(String::new, |changed| changed.why.clone())
}

#[test]
fn files_that_are_not_what_was_recorded_are_skipped_and_named() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        let files: Vec<_> = [
            "same", "grown", "touched", "replaced", "gone", "link", "folder",
        ]
        .iter()
        .map(|name| disk.file(name, 4))
        .collect();
        let extents: Vec<_> = (0..7).map(|file| (file, 0, 4)).collect();
        let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
        let pack = pack(&paths, &extents);

        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        fs::write(&files[1], vec![b'y'; 5 * PAGE_BYTES as usize]).expect("own");
        File::options()
            .write(true)
            .open(&files[2])
            .and_then(|file| file.set_modified(long_ago))
            .expect("own");
        replace_alike(&files[3]);
        for path in &files[4..] {
            fs::remove_file(path).expect("own");
        }
        symlink(&files[0], &files[5]).expect("own");
        fs::create_dir(&files[6]).expect("own");

        let done = run(&pack, &Options::default());
        assert_eq!(resident(&files[0]), [0, 1, 2, 3]);
        assert_eq!(resident(&files[3]), [] as [u32; 0]);
        assert_eq!(done.changed.len(), 6, "{done:?}");
        assert_eq!(done.pages.changed, 24);
        let expected = [
            (1, "it has 20480 bytes, 16384 were recorded"),
            (2, "modified"),
            (3, "another file: inode"),
            (4, "gone"),
            (5, "no regular file"),
            (6, "no regular file"),
        ];
        for (file, why) in expected {
            let reason = reason(&done, &files[file]);
            assert!(reason.contains(why), "{}: {reason}", files[file].display());
        }
        let mut for_an_image = pack.clone();
        for_an_image.any_inode = true;
        run(&for_an_image, &Options::default());
        assert_eq!(resident(&files[3]), [0, 1, 2, 3]);
    });
}

/// Another file of the same name, size and time.
fn replace_alike(path: &Path) {
    let before = fs::metadata(path).expect("own");
    let other = path.with_extension("other");
    fs::copy(path, &other).expect("room");
    let modified = before.modified().expect("kept");
    File::options()
        .write(true)
        .open(&other)
        .and_then(|file| file.set_modified(modified))
        .expect("own");
    fs::rename(&other, path).expect("own");
    drop_pages(path);
}

#[test]
fn file_cut_during_read_costs_one_error() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        // At the second look nothing of it is open yet; at the fourth it is, and two steps of it
        // may be under way.
        for looks in [2, 4] {
            for method in METHODS {
                let (cut, whole) = (disk.file("cut", 400), disk.file("whole", 40));
                let pack = pack(&[&cut, &whole], &[(0, 0, 400), (1, 0, 40)]);
                let mut memory = Fake {
                    looks,
                    then: || {
                        let file = File::options().write(true).open(&cut).expect("own");
                        file.set_len(10 * PAGE_BYTES).expect("own");
                        None
                    },
                };
                let done = replay(&pack, &by(method), &mut memory, &|_| {}).expect("a root");
                sums_up(&done);
                let all: Vec<u32> = (0..40).collect();
                assert_eq!(resident(&whole), all, "{method:?}");
                assert!(done.pages.failed >= 390 - 3 * 32, "{method:?} {done:?}");
                assert_eq!(done.failures.len(), 1, "{done:?}");
                let error = &done.failures[0].error;
                assert!(error.contains("40960 bytes"), "{method:?}: {error}");
            }
        }
    });
}

#[test]
fn file_that_is_unlinked_while_it_is_read_is_named() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        let (gone, whole) = (disk.file("gone", 40), disk.file("whole", 40));
        let pack = pack(&[&gone, &whole], &[(0, 0, 40), (1, 0, 40)]);
        let mut memory = Fake {
            looks: 1,
            then: || {
                let _ = fs::remove_file(&gone);
                None
            },
        };
        let done = replay(&pack, &Options::default(), &mut memory, &|_| {}).expect("a root");
        sums_up(&done);
        assert_eq!(done.pages.failed, 40, "{done:?}");
        assert_eq!(done.failures[0].error, "it is gone");
        assert_eq!(resident(&whole).len(), 40);
    });
}

#[test]
fn another_root_is_not_left_by_symbolic_links() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        fs::create_dir_all(disk.path().join("root/usr")).expect("room");
        let inside = disk.file("root/usr/a", 4);
        // As an absolute link of the other root: to its own /usr, not ours.
        symlink("/usr", disk.path().join("root/link")).expect("room");
        let mut pack = pack(&[&inside, &inside], &[(0, 0, 2), (1, 2, 2)]);
        pack.files[0].path = "/usr/a".into();
        pack.files[1].path = "/link/a".into();
        let root = disk.path().join("root");
        let options = Options {
            root: Some(root.clone()),
            ..Options::default()
        };
        let done = run(&pack, &options);
        assert_eq!(resident(&inside), [0, 1, 2, 3], "{done:?}");
        fs::remove_file(&inside).expect("own");
        let done = run(&pack, &options);
        assert_eq!(done.changed[0].path, root.join("usr/a").to_string_lossy());

        let nowhere = Options {
            root: Some(root.join("nowhere")),
            ..Options::default()
        };
        let mut memory = Fake {
            looks: 1,
            then: || None,
        };
        let error = replay(&pack, &nowhere, &mut memory, &|_| {}).expect_err("no such root");
        assert!(error.to_string().contains("nowhere"), "{error}");
    });
}

#[test]
fn reading_at_another_priority_loads_the_same() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 50);
    for priority in [Priority::Idle, Priority::BestEffort(7)] {
        drop_pages(&file);
        let options = Options {
            priority: Some(priority),
            ..Options::default()
        };
        let done = run(&pack(&[&file], &[(0, 0, 50)]), &options);
        assert_eq!((done.pages.loaded, done.notes.len()), (50, 0), "{done:?}");
    }
}

#[test]
fn empty_pack_is_done_at_once() {
    let done = run(&pack(&[], &[]), &Options::default());
    assert_eq!((done.pages.asked, done.threads), (0, 0));
}
