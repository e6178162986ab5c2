//! System V segments, in a process that nobody forks: a copy counts as attached.

use hythe_sys::system_v::{
    Attachment, CREATE, NO_RESERVE, PRIVATE, READ_ONLY, change, list, open, remove, status,
};

#[test]
fn segment_lives_from_making_to_the_last_detaching() {
    let id = open(PRIVATE, 5000, CREATE | NO_RESERVE | 0o600).expect("made");
    let made = status(id).expect("there");
    assert_eq!((made.bytes, made.mode, made.attached), (5000, 0o600, 0));
    assert_eq!(made.creator, std::process::id() as i32);
    assert!(list().iter().any(|(found, _)| *found == id));
    let attached = Attachment::new(id, READ_ONLY).expect("attached");
    change(id, made.user, made.group, 0o640).expect("changed");
    remove(id).expect("removed");
    let removed = status(id).expect("still attached");
    assert_eq!(
        (removed.attached, removed.is_removed, removed.mode),
        (1, true, 0o640)
    );
    drop(attached);
    let gone = status(id).expect_err("gone").raw_os_error();
    assert!(matches!(gone, Some(libc::EINVAL | libc::EIDRM)), "{gone:?}");
}

#[test]
fn errors_are_the_kernel_s() {
    let error = open(0x7fff_1234, 1, 0).expect_err("there is none");
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    let error = Attachment::new(-1, 0).expect_err("no id");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}
