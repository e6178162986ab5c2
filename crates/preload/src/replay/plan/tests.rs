//! Plans: nothing is lost, nothing is read twice, the budget is exact, devices see ascending
//! addresses. Never touches a file.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn extent(file: u32, first_page: u32, pages: u32) -> Extent {
    Extent {
        file,
        first_page,
        pages,
    }
}

/// Extents that do not overlap: of each file ascending, the files mixed.
fn wanted() -> impl Strategy<Value = Vec<Extent>> {
    prop::collection::vec((0_u32..4, 0_u32..5, 1_u32..900), 0..20).prop_map(|parts| {
        let mut ends = [0; 4];
        let made = parts.into_iter().map(|(file, gap, pages)| {
            let first = ends[file as usize] + gap;
            ends[file as usize] = first + pages;
            extent(file, first, pages)
        });
        made.collect()
    })
}

/// File `file` in blocks of 100 pages, which lie in reverse on the device; files have places of
/// their own.
fn reversed(device: u64, file: u64) -> PhysicalMap {
    let block = 100 * PAGE_BYTES;
    let extents = (0..1000).map(|number| PhysicalExtent {
        logical: number * block,
        physical: (file * 2000 + 1000 - number) * block,
        bytes: block,
    });
    PhysicalMap {
        device,
        extents: extents.collect(),
    }
}

fn pages(extents: &[Extent]) -> BTreeSet<(u32, u32)> {
    let mut found = BTreeSet::new();
    for extent in extents {
        for page in extent.first_page..extent.first_page + extent.pages {
            assert!(found.insert((extent.file, page)), "page {page} twice");
        }
    }
    found
}

#[test]
fn runs_of_missing_pages_are_found() {
    let resident = [false, false, true, false, true, true];
    let runs = missing(extent(3, 10, 6), &resident);
    assert_eq!(runs, [extent(3, 10, 2), extent(3, 13, 1)]);
    assert_eq!(missing(extent(3, 10, 2), &[true, true]), []);
}

#[test]
fn budget_cuts_inside_an_extent() {
    let wanted = [extent(0, 5, 3), extent(1, 0, 4)];
    let (taken, left_out) = within_budget(&wanted, 5 * PAGE_BYTES + 4095);
    assert_eq!(taken, [extent(0, 5, 3), extent(1, 0, 2)]);
    assert_eq!(left_out, 2);
    assert_eq!(within_budget(&wanted, 4095), (vec![], 7));
}

#[test]
fn pieces_follow_the_device_and_neighbours_are_read_at_once() {
    let map = reversed(1, 0);
    // Blocks 0 and 1: the second lies first. File 1 has no map and stays behind.
    let wanted = [extent(1, 7, 2), extent(0, 90, 20), extent(0, 110, 5)];
    let steps = arrange(&wanted, |file| (file == 0).then_some(&map));
    assert_eq!(
        steps,
        [extent(0, 100, 15), extent(0, 90, 10), extent(1, 7, 2)]
    );
}

#[test]
fn holes_have_no_address_and_are_read_all_the_same() {
    let map = PhysicalMap {
        device: 1,
        extents: vec![PhysicalExtent {
            logical: 4 * PAGE_BYTES,
            physical: 0,
            bytes: 2 * PAGE_BYTES,
        }],
    };
    let steps = arrange(&[extent(0, 0, 10)], |_| Some(&map));
    assert_eq!(steps, [extent(0, 4, 2), extent(0, 0, 4), extent(0, 6, 4)]);
}

#[test]
fn urgent_reads_wait_at_most_one_window() {
    let map = reversed(1, 0);
    let whole = u32::try_from(WINDOW_PAGES).expect("small");
    let steps = arrange(&[extent(0, 0, 2 * whole)], |_| Some(&map));
    let in_window = |step: &Extent| step.first_page < whole;
    let first_of_second = steps.iter().position(|step| !in_window(step));
    let last_of_first = steps.iter().rposition(in_window);
    assert!(last_of_first < first_of_second);
}

proptest! {
    #[test]
    fn budget_takes_the_front_to_the_page(wanted in wanted(), budget in 0_u64..20_000) {
        let (taken, left_out) = within_budget(&wanted, budget * PAGE_BYTES);
        let all: u64 = wanted.iter().map(|extent| u64::from(extent.pages)).sum();
        let got: u64 = taken.iter().map(|extent| u64::from(extent.pages)).sum();
        prop_assert_eq!(got, all.min(budget));
        prop_assert_eq!(left_out, all - got);
        for (taken, wanted) in taken.iter().zip(&wanted) {
            prop_assert_eq!((taken.file, taken.first_page), (wanted.file, wanted.first_page));
        }
    }

    #[test]
    fn arranging_keeps_every_page_once(wanted in wanted(), mapped in 0_u32..5) {
        let maps: Vec<PhysicalMap> = (0..4).map(|file| reversed(file % 2, file)).collect();
        let steps = arrange(&wanted, |file| (file < mapped).then(|| &maps[file as usize]));
        prop_assert_eq!(pages(&steps), pages(&wanted));
        prop_assert!(steps.iter().all(|step| (1..=STEP_PAGES).contains(&step.pages)));
    }

    #[test]
    fn inside_a_window_addresses_ascend(wanted in wanted()) {
        let whole: u64 = wanted.iter().map(|extent| u64::from(extent.pages)).sum();
        prop_assume!(whole <= WINDOW_PAGES);
        let maps: Vec<PhysicalMap> = (0..4).map(|file| reversed(file % 2, file)).collect();
        let steps = arrange(&wanted, |file| Some(&maps[file as usize]));
        let key = |step: &Extent| {
            let map = &maps[step.file as usize];
            (map.device, map.at(step.first_page).expect("mapped").0)
        };
        prop_assert!(steps.is_sorted_by_key(key));
    }
}
