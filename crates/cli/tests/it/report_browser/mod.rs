//! Pages of `hythe report` in a real browser: they ask for nothing, say nothing on the console, and
//! read well in light and dark and on a phone's width. What is seen is kept as pictures, because no
//! check sees everything.
//!
//! Run by `make test-latency`, which fails without Chromium; `cargo test` says aloud that it leaves
//! this out.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Root;
use browser::{Browser, Seen, View};
use serde_json::Value;

/// Set by `make test-latency`.
const ASKED_FOR: &str = "HYTHE_TEST_LATENCY";
const LOOK: &str = include_str!("look.js");
/// Of each page in each view; the rest looks like it.
const PICTURES: u64 = 2;

const fn view(name: &'static str, width: u64, is_dark: bool) -> View {
    View {
        name,
        width,
        height: 844,
        is_dark,
        is_phone: width < 500,
    }
}

const VIEWS: [View; 6] = [
    view("desk-light", 1280, false),
    view("desk-dark", 1280, true),
    view("phone-light", 390, false),
    view("phone-dark", 390, true),
    // Just wide enough for the drawings that are made for a desk, and the narrowest phone that is
    // still sold.
    view("tablet-light", 700, false),
    view("small-light", 360, false),
];

/// A browser, where the test was asked for.
fn browser(root: &Root) -> Option<Browser> {
    let is_asked = std::env::var_os(ASKED_FOR).is_some();
    if !is_asked {
        eprintln!("SKIPPED (run by make test-latency): pages of hythe report in Chromium");
        return None;
    }
    let found = Browser::start(root.path());
    assert!(
        found.is_some(),
        "there is no /usr/bin/chromium: run scripts/latency-tools.sh"
    );
    found
}

/// What is wrong with a page as a reader finds it.
fn look(browser: &mut Browser) -> (Vec<String>, Value) {
    let found = browser.evaluate(LOOK);
    let problems = found["problems"].as_array().expect("a list");
    let problems = problems
        .iter()
        .map(|problem| problem.as_str().unwrap_or("?").to_owned());
    (problems.collect(), found)
}

fn kept(wanted: &[&str]) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    let found = fs::read_dir(folder).expect("in the sources");
    let mut found: Vec<PathBuf> = found.map(|entry| entry.expect("read").path()).collect();
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json") && wanted.iter().any(|begin| name.starts_with(begin))
    });
    found.sort();
    assert!(!found.is_empty(), "{wanted:?}");
    found
}

/// This machine, measured in short: with and without a load, so that two runs are laid over each
/// other.
fn measured(root: &Root) -> Vec<PathBuf> {
    let loads = ["idle", "hog"].map(|load| {
        let document = root.json(&[
            "latency",
            "host",
            "--loops",
            "2000",
            "--interval",
            "500",
            "--load",
            load,
        ]);
        let path = root.path().join(format!("{load}.json"));
        fs::write(&path, document.to_string()).expect("own");
        path
    });
    loads.to_vec()
}

/// Cores: two that are seen from outside, and one that nobody sees.
fn measured_boards(root: &Root) -> Vec<PathBuf> {
    let boards = ["virt-a53", "virt-a57", "hosted"].map(|board| {
        let document = root.json(&["latency", "board", board]);
        let path = root.path().join(format!("{board}.json"));
        fs::write(&path, document.to_string()).expect("own");
        path
    });
    boards.to_vec()
}

/// Makes a page and looks at it in every view; returns it.
fn read_through(root: &Root, browser: &mut Browser, name: &str, documents: &[PathBuf]) -> String {
    let page = root.path().join(format!("{name}.html"));
    let mut arguments = vec!["report", "-o", page.to_str().expect("plain")];
    arguments.extend(documents.iter().map(|path| path.to_str().expect("plain")));
    let done = root.json(&arguments);
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&pictures).expect("own");
    let own = format!("file://{}", page.display());
    for view in &VIEWS {
        let Seen { requests, said } = browser.visit(&page, view);
        assert_eq!(requests, std::slice::from_ref(&own), "{name} {}", view.name);
        assert_eq!(said, [""; 0], "{name} {}", view.name);
        let (problems, found) = look(browser);
        browser.picture(&pictures, &format!("{name}-{}", view.name), PICTURES);
        assert_eq!(problems, [""; 0], "{name} {}", view.name);
        assert_eq!(found["drawings"], done["plots"], "{name} {}", view.name);
        let ground = found["ground"].as_f64().expect("a number");
        assert_eq!(ground < 0.1, view.is_dark, "{name} {}: {ground}", view.name);
    }
    println!(
        "{name}: {} drawings of {} documents, {} bytes; pictures in {}",
        done["plots"],
        done["documents"],
        done["bytes"],
        pictures.display()
    );
    fs::read_to_string(&page).expect("made above")
}

/// Who is seen from outside has a timeline; of the others it is said that there is none, and why.
fn check_timelines(page: &str) {
    for found in [
        "<h4>task switch, outside: timeline of outliers</h4>",
        "emulated time since the first edge",
        "<li>hosted/none/idle (all measures): board hosted has no emulator",
    ] {
        assert!(page.contains(found), "no {found}");
    }
    let untimed = "timeline of outliers</h4>";
    for group in ["task switch: ", "round trip: "] {
        assert!(!page.contains(&format!("<h4>{group}{untimed}")), "{group}");
    }
}

#[test]
fn pages_ask_for_nothing_and_read_well() {
    let Some(root) = Root::on_shared_memory("a report of a measurement over a channel") else {
        assert!(std::env::var_os(ASKED_FOR).is_none(), "no /dev/shm");
        return;
    };
    let Some(mut browser) = browser(&root) else {
        return;
    };
    let mut latencies = measured(&root);
    read_through(&root, &mut browser, "host", &latencies);
    let alone = measured_boards(&root);
    check_timelines(&read_through(&root, &mut browser, "alone", &alone));
    let mut boards = kept(&["latency-"]);
    boards.extend(latencies.drain(..1));
    read_through(&root, &mut browser, "boards", &boards);
    let benches = kept(&["ipc-", "media-", "preload-", "soak-", "waiter-"]);
    read_through(&root, &mut browser, "benches", &benches);
    browser.close();
}

/// A page with one flaw, and what is said of it.
const FLAWS: [(&str, &str); 9] = [
    (r#"<div style="width:500px">wide</div>"#, "wide: 50"),
    (
        r#"<p style="color:#999">pale</p>"#,
        "faint: \"pale\" 2.8 to 1",
    ),
    (r#"<p style="font-size:9px">tiny</p>"#, "small: \"tiny\""),
    (
        r##"<p>nothing to click on: <a href="#x"></a></p>"##,
        "unnamed: the link to #x has no text",
    ),
    (
        r#"<figure><svg role="img" viewBox="0 0 100 50" width="100" height="50"><rect width="100" height="50" fill="white"/></svg></figure>"#,
        "unnamed: a drawing has no title or description",
    ),
    (
        r#"<figure><svg role="img" viewBox="0 0 100 50" width="100" height="50"><title>t</title><desc>d</desc><rect width="100" height="50" fill="white"/><text x="60" y="20">too long</text></svg></figure>"#,
        "cut: \"too long\" in t",
    ),
    (
        r#"<figure><svg role="img" viewBox="0 0 100 50" width="100" height="50"><title>t</title><desc>d</desc><rect width="100" height="50" fill="white"/><text x="10" y="20">one</text><text x="20" y="22">two</text></svg></figure>"#,
        "overlap: \"one\" and \"two\" in t",
    ),
    (
        r#"<figure><svg role="img" viewBox="0 0 200 50" width="100" height="25"><title>t</title><desc>d</desc><rect width="200" height="50" fill="white"/><text x="10" y="20">half</text></svg></figure>"#,
        "small: \"half\" of 8.0 pixels in t",
    ),
    (
        r##"<figure><svg role="img" viewBox="0 0 100 50" width="100" height="50"><title>t</title><desc>d</desc><rect width="100" height="50" fill="white"/><circle r="5" fill="#ccc"/></svg></figure>"##,
        "faint: a mark of rgb(204, 204, 204) in t",
    ),
];

/// What asks for something or complains, and what is noticed.
const NOISES: [(&str, &str); 5] = [
    (
        r#"<img alt="" src="http://example.invalid/picture.png">"#,
        "http://example.invalid/picture.png",
    ),
    (
        "<style>@import url(http://example.invalid/style.css)</style>",
        "http://example.invalid/style.css",
    ),
    (r#"<img alt="" src="beside.png">"#, "beside.png"),
    (
        "<script>console.error('a complaint')</script>",
        "a complaint",
    ),
    ("<script>throw new Error('thrown')</script>", "thrown"),
];

#[test]
fn what_is_wrong_is_seen() {
    let root = Root::new();
    let Some(mut browser) = browser(&root) else {
        return;
    };
    let page = root.path().join("page.html");
    let mut visit = |content: &str| {
        let html = format!(
            "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>x</title><meta name=\"viewport\" content=\"width=device-width\"><style>body{{margin:0;background:#fff}}</style></head><body><p>well</p>{content}</body></html>"
        );
        fs::write(&page, html).expect("own");
        let seen = browser.visit(&page, &VIEWS[2]);
        let (problems, _) = look(&mut browser);
        (seen, problems)
    };
    let (seen, problems) = visit("");
    assert_eq!((seen.requests.len(), seen.said.len()), (1, 0), "{seen:?}");
    assert_eq!(problems, [""; 0]);
    for (content, said) in FLAWS {
        let (_, problems) = visit(content);
        assert!(
            problems.len() == 1 && problems[0].starts_with(said),
            "{said}: {problems:?}"
        );
    }
    for (content, noticed) in NOISES {
        let (Seen { mut requests, said }, _) = visit(content);
        requests.remove(0);
        let all = requests.iter().chain(&said);
        assert!(
            all.clone().any(|found| found.contains(noticed)),
            "{noticed}: {requests:?} {said:?}"
        );
    }
    browser.close();
}
