//! Segments that Linux and a core use together: found, attached, removed from either side, refused,
//! and kept when one of them is killed.

mod support;

use support::segment_core::{Fixture, key, p1_boards};

#[test]
fn bytes_of_linux_are_read_by_the_core_and_the_other_way_round() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let key = key();
        let id = fixture.make(key, 5000);
        let here = fixture.attach(id);
        here.write(0, b"from linux");
        assert_eq!(fixture.on_core.get(key, 0, 0), Ok(id));
        let there = fixture.on_core.attach(id, 0).expect("attached");
        assert_eq!(there.bytes, 5000);
        assert_eq!(fixture.on_core.read(there, 0, 10), b"from linux");
        fixture.on_core.write(there, 4990, b"from core!");
        let mut bytes = [0; 10];
        here.read(4990, &mut bytes);
        assert_eq!(&bytes, b"from core!");
        assert_eq!(fixture.on_core.detach(there), 0);
        drop(here);
        fixture.finish();
    }
}
