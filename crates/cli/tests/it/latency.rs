//! `hythe latency`: this machine measured in short, results for other programs, and comparisons.
//! What is measured well is not judged here.

use crate::support;

use std::fs;
use std::path::PathBuf;

use crate::support::{Root, eventually};
use quick_junit::Report;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::{Value, json};

/// Short, and the same without privilege: some of it is then said to be missing.
const SHORT: [&str; 6] = ["latency", "host", "--loops", "20", "--interval", "500"];

fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("Linux");
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], more].concat()
}

#[test]
fn document_has_all_measures_of_all_cpus_with_conditions() {
    let Some(root) = Root::on_shared_memory("a measurement over a channel") else {
        return;
    };
    let document = root.json(&SHORT);
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "latency");
    let results = document["results"].as_array().expect("a list");
    for cpu in allowed_cpus() {
        for metric in ["timer", "futex_wake", "eventfd_wake", "channel_wake"] {
            let case = format!("host/cpu{cpu}/idle");
            let mut found = results
                .iter()
                .filter(|result| result["metric"] == metric && result["case"] == case.as_str());
            let result = found
                .next()
                .unwrap_or_else(|| panic!("{case} {metric} in {document}"));
            let figures = ["min", "p50", "p99", "p999", "max"]
                .map(|figure| result[figure].as_u64().expect("a number"));
            assert!(figures.is_sorted() && figures[0] > 0, "{result}");
            // So few samples are all kept with their times.
            let outliers = result["outliers"].as_array().expect("a list");
            assert_eq!(Some(outliers.len() as u64), result["count"].as_u64());
            assert!(outliers.is_sorted_by_key(|outlier| outlier["at_ns"].as_u64()));
            assert!(
                result["conditions"]["memory_locked"].is_boolean(),
                "{result}"
            );
        }
    }
    let conditions = &document["conditions"];
    assert_eq!(conditions["complete"], true);
    for name in [
        "clock",
        "scheduler",
        "priority",
        "interval_us",
        "load",
        "cpu_dma_latency_held",
        "not_permitted",
        "load_average",
        "steal_percent",
    ] {
        assert!(!conditions[name].is_null(), "{name} in {conditions}");
    }
    // The pool stays, as after every command; of us, nothing does.
    let list = root.json(&["list"]);
    assert_eq!(
        (&list["channels"], &list["participants"]),
        (&json!([]), &json!([])),
        "{list}"
    );
}

/// A command that runs `hythe` as nobody, who may do nothing special. None: only root can arrange
/// that.
fn as_nobody(root: &Root, left_out: &str) -> Option<Vec<String>> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED (not root, so who may what here is unknown): {left_out}");
        return None;
    }
    // Its own copy, where that user can reach it.
    let program = support::copy_hythe(root.path(), &["hythe-latency"]);
    let mut permissions = fs::metadata(root.path()).expect("own").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(root.path(), permissions).expect("own");
    let program = program.to_str().expect("plain");
    let words = [
        "setpriv",
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
        "--reuid",
        "65534",
        "--clear-groups",
        "--",
        program,
    ];
    Some(words.map(str::to_owned).to_vec())
}

fn run_words(root: &Root, words: &[String]) -> support::Ended {
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).env("HYTHE_ROOT", root.pools());
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    support::Running::new(command).end()
}

#[test]
fn what_is_not_permitted_is_said_and_strict_makes_it_an_error() {
    let root = Root::new();
    let Some(nobody) = as_nobody(&root, "refusals of a real measurement") else {
        return;
    };
    let rest = with(&["--measure", "timer", "--json"]);
    let run = |more: &[&str]| {
        let mut words = nobody.clone();
        words.extend(rest.iter().chain(more).map(|word| (*word).to_owned()));
        run_words(&root, &words)
    };
    let ended = run(&[]);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document: Value = serde_json::from_slice(&ended.output).expect("a document");
    let refused = document["conditions"]["not_permitted"].to_string();
    for what in ["sched_fifo", "cpu_dma_latency"] {
        assert!(ended.errors.contains(what), "{what} in {}", ended.errors);
        assert!(refused.contains(what), "{what} in {refused}");
    }
    assert_eq!(document["conditions"]["scheduler"], "SCHED_OTHER");
    assert_eq!(document["conditions"]["cpu_dma_latency_held"], false);
    run(&["--strict"]).failed(
        1,
        &[
            "--strict",
            "sched_fifo: priority 80 is not permitted",
            "limits.conf",
        ],
    );
    // Who does not ask for it is not refused it.
    let modest = run(&[
        "--strict",
        "--priority",
        "0",
        "--no-mlock",
        "--no-dma-latency",
    ]);
    assert_eq!((modest.code, modest.errors.as_str()), (Some(0), ""));
}

#[test]
fn late_refusal_ends_strict_run_with_results() {
    let root = Root::new();
    let Some(nobody) = as_nobody(&root, "a limit of memory that is reached late") else {
        return;
    };
    let rest = with(&["--measure", "timer,futex_wake", "--json", "--strict"]);
    let run = |limit_kib: u64| {
        let limit = format!("--memlock={}", limit_kib << 10);
        let mut words = vec!["prlimit".to_owned(), limit];
        words.extend(nobody.iter().cloned());
        let modest = ["--priority", "0", "--no-dma-latency"];
        words.extend(rest.iter().chain(&modest).map(|word| (*word).to_owned()));
        run_words(&root, &words)
    };
    // The second measure has twice the threads: between what the first needs and what both do lies
    // a limit that only one meets.
    let (mut too_small, mut enough) = (1 << 10, 8 << 20);
    let whole = run(enough);
    if whole.errors.starts_with("prlimit:") {
        eprintln!(
            "SKIPPED ({}): a limit of memory that is reached late",
            whole.errors.trim()
        );
        return;
    }
    assert_eq!(whole.code, Some(0), "{}", whole.errors);
    let late = loop {
        assert!(
            enough - too_small > 1,
            "no limit was met by the first measure only"
        );
        let middle = too_small.midpoint(enough);
        let ended = run(middle);
        match (ended.code, ended.output.is_empty()) {
            (Some(0), _) => enough = middle,
            (Some(1), true) => {
                assert!(
                    ended.errors.contains("--strict: mlockall"),
                    "{}",
                    ended.errors
                );
                too_small = middle;
            }
            _ => break ended,
        }
    };
    assert_eq!(late.code, Some(1), "{}", late.errors);
    for word in ["--strict: mlockall", "limits.conf", "results so far"] {
        assert!(late.errors.contains(word), "no `{word}` in {}", late.errors);
    }
    let document: Value = serde_json::from_slice(&late.output).expect("a document");
    assert_eq!(document["conditions"]["complete"], false);
    let refused = document["conditions"]["not_permitted"].to_string();
    assert!(refused.contains("mlockall"), "{refused}");
    let results = document["results"].as_array().expect("a list");
    assert_eq!(results.len(), allowed_cpus().len());
    for result in results {
        assert_eq!(result["metric"], "timer");
        assert_eq!(result["conditions"]["memory_locked"], true);
    }
}

#[test]
fn pool_that_goes_ends_a_strict_run_with_the_results_so_far() {
    let root = Root::new();
    root.ok(&["pool", "create", "brief", "--size", "16M"]);
    let running = root.start(&[
        "latency",
        "host",
        "--for",
        "2",
        "--measure",
        "timer,channel_wake",
        "--pool",
        "brief",
        "-v",
        "--json",
        "--strict",
        "--priority",
        "0",
        "--no-mlock",
        "--no-dma-latency",
    ]);
    running.wait_until_said("measuring timer");
    fs::remove_dir_all(root.pools()).expect("nobody is in it now");
    let ended = running.end();
    fs::create_dir(root.pools()).expect("gone");
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    for word in ["--strict: channel_wake", "results so far"] {
        assert!(
            ended.errors.contains(word),
            "no `{word}` in {}",
            ended.errors
        );
    }
    let document: Value = serde_json::from_slice(&ended.output).expect("a document");
    assert_eq!(document["conditions"]["complete"], false);
    let results = document["results"].as_array().expect("a list");
    assert_eq!(results.len(), allowed_cpus().len());
    assert!(results.iter().all(|result| result["metric"] == "timer"));
}

#[test]
fn without_a_pool_the_rest_is_measured_and_said_to_be_all() {
    let root = Root::new();
    let nowhere = with(&["--pool", "nowhere", "--measure", "channel_wake,futex_wake"]);
    let ended = root.run(&nowhere);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    for word in ["channel_wake: there is no channel", "nowhere", "--measure"] {
        assert!(
            ended.errors.contains(word),
            "no `{word}` in {}",
            ended.errors
        );
    }
    assert!(ended.text().contains("futex_wake") && !ended.text().contains("/idle  channel_wake"));
    root.run(&with(&["--pool", "nowhere", "--measure", "channel_wake"]))
        .failed(1, &["nowhere", "nothing of what was asked for"]);
    let strict = [
        "--strict",
        "--priority",
        "0",
        "--no-mlock",
        "--no-dma-latency",
    ];
    let long = ["latency", "host", "--for", "3600", "--pool", "nowhere"];
    root.run(&[&long[..], &strict].concat())
        .failed(1, &["--strict", "channel_wake", "nowhere"]);
}

#[test]
fn absurd_options_are_refused_with_what_is_possible() {
    let root = Root::new();
    let wrong: &[(&[&str], &str)] = &[
        (&["--priority", "100"], "0..=99"),
        (&["--priority", "-1"], "-1"),
        (&["--interval", "0"], "20..=1000000"),
        (&["--interval", "1000001"], "20..=1000000"),
        (&["--for", "0"], "above 0"),
        (
            &["--for", "0.001", "--interval", "2000"],
            "does not hold one interval",
        ),
        (&["--loops", "0"], "1.."),
        (&["--loops", "5", "--for", "5"], "cannot be used with"),
        (&["--cpus", "99999"], "no CPU or range"),
        (&["--cpus", "1023"], "this machine has"),
        (&["--cpus", "3-1"], "ends before it begins"),
        (&["--cpus", ""], "such as"),
        (&["--load", "tornado"], "memory"),
        (&["--measure", "weather"], "futex_wake"),
        (&["--fail-above", "p99.9=50"], "with its unit"),
        (&["--fail-above", "p101=5us"], "up to 100"),
        (&["--fail-above", "thread:p99=5us"], "timer, futex_wake"),
        (&["--fail-above", "timer:p99=5us", "--rtla"], "thread"),
    ];
    for (arguments, word) in wrong {
        let arguments = [&["latency", "host"], *arguments].concat();
        root.run(&arguments).failed(2, &[word]);
    }
    root.run(&["latency", "compare", "one.json"])
        .failed(2, &["2"]);
    root.run(&with(&[
        "--measure",
        "timer",
        "--load",
        "io",
        "--load-directory",
        "/does/not/exist",
    ]))
    .failed(1, &["the load `io`"]);
}

#[test]
fn threshold_that_is_exceeded_fails_the_run_and_its_report() {
    let root = Root::new();
    let (report, plots) = (root.path().join("latency.xml"), root.path().join("plots"));
    let files = [
        "--junit",
        report.to_str().expect("plain"),
        "--hgrm",
        plots.to_str().expect("plain"),
    ];
    let cpu = allowed_cpus()[0].to_string();
    let measured = with(&["--measure", "timer,futex_wake", "--cpus", &cpu]);
    let measured = [&measured[..], &files].concat();
    let ended = root.run(
        &[
            &measured[..],
            &[
                "--fail-above",
                "futex_wake:p99.9=1ns",
                "--fail-above",
                "p50=100s",
            ],
        ]
        .concat(),
    );
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    for word in ["too slow", "futex_wake: p99.9 is", "above 1 ns"] {
        assert!(ended.errors.contains(word), "{word} in {}", ended.errors);
    }
    assert!(!ended.errors.contains("timer"), "{}", ended.errors);
    assert!(
        ended.text().contains("P99.9"),
        "the results are printed all the same"
    );
    let text = fs::read_to_string(&report).expect("written");
    let parsed = Report::deserialize_from_str(&text).expect("JUnit");
    assert_eq!((parsed.tests, parsed.failures, parsed.errors), (3, 1, 0));
    let mut names: Vec<PathBuf> = fs::read_dir(&plots)
        .expect("made")
        .map(|entry| entry.expect("own").path())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            plots.join(format!("futex_wake_host-cpu{cpu}-idle.hgrm")),
            plots.join(format!("timer_host-cpu{cpu}-idle.hgrm"))
        ]
    );
    let text = fs::read_to_string(&names[1]).expect("written");
    assert!(
        text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n")
            && text.contains("Total count    =           20]"),
        "{text}"
    );

    let kept = root.run(&[&measured[..], &["--fail-above", "p50=100s"]].concat());
    assert_eq!(kept.code, Some(0), "{}", kept.errors);
    let blocked = report.join("below-a-file");
    let blocked = blocked.to_str().expect("plain");
    let ended = root.run(&with(&["--measure", "timer", "--junit", blocked]));
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(ended.errors.contains("cannot write") && ended.errors.contains("below-a-file"));
    assert!(
        !ended.text().contains("P99.9"),
        "nothing is measured for a report that cannot be written"
    );
}

#[test]
fn same_under_the_names_of_rtla() {
    let root = Root::new();
    let arguments = with(&["--measure", "timer", "--rtla"]);
    let text = root.ok(&arguments);
    assert!(
        text.starts_with(
            "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:"
        ),
        "{text}"
    );
    let columns: String = allowed_cpus()
        .iter()
        .map(|cpu| format!("   Thr-{cpu:03}"))
        .collect();
    assert!(text.contains(&format!("\nIndex{columns}\n")), "{text}");
    let document = root.json(&arguments);
    assert_eq!(document["results"][0]["metric"], "thread");
}

/// What the threads of a process are called.
fn threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten();
    let name = |entry: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(entry.ok()?.path().join("comm")).ok()
    };
    tasks
        .filter_map(name)
        .map(|name| name.trim().to_owned())
        .collect()
}

#[test]
fn interrupt_ends_it_with_the_results_so_far() {
    let root = Root::new();
    let running = root.start(&[
        "latency",
        "host",
        "--for",
        "3600",
        "--measure",
        "timer",
        "--load",
        "hog",
        "--json",
    ]);
    let process = running.child.id();
    let name = format!("timer/cpu{}", allowed_cpus()[0]);
    // Between the thread's first name and its first sample there are milliseconds: its time on a
    // CPU tells when it measures.
    eventually("it measures", || {
        let tasks = fs::read_dir(format!("/proc/{process}/task"))
            .into_iter()
            .flatten()
            .flatten();
        let is_ours = |path: &PathBuf| {
            fs::read_to_string(path.join("comm")).is_ok_and(|found| found.trim() == name)
        };
        let switches = |path: PathBuf| {
            let status = fs::read_to_string(path.join("status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        };
        tasks
            .map(|entry| entry.path())
            .filter(is_ours)
            .filter_map(switches)
            .any(|count| count > 100)
    });
    assert!(
        threads(process)
            .iter()
            .any(|name| name.starts_with("load/hog")),
        "{:?}",
        threads(process)
    );
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("ended early"), "{}", ended.errors);
    let document: Value = serde_json::from_slice(&ended.output).expect("a document");
    assert_eq!(document["conditions"]["complete"], false);
    assert!(
        document["results"][0]["count"].as_u64() > Some(0),
        "{document}"
    );
    assert!(
        document["conditions"]["load_rounds"].as_u64() > Some(0),
        "{document}"
    );
}

/// Writes a document of a short run, changed.
fn kept(root: &Root, name: &str, more: &[&str], change: impl Fn(&mut Value)) -> String {
    let mut document = root.json(&with(&[&["--measure", "timer"], more].concat()));
    change(&mut document);
    let path = root.path().join(name);
    fs::write(&path, document.to_string()).expect("own");
    path.to_str().expect("plain").to_owned()
}

#[test]
fn runs_are_compared_with_their_conditions_side_by_side() {
    let root = Root::new();
    let idle = kept(&root, "idle.json", &[], |_| {});
    let hog = kept(&root, "hog.json", &["--load", "hog"], |_| {});
    let text = root.ok(&["latency", "compare", &idle, &hog]);
    for word in [
        "host/cpu",
        "/hog",
        "P99.9",
        "hog.json / ",
        "* load ",
        "* differs",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    assert!(!text.contains("* clock "), "{text}");
    let compared = root.run(&["latency", "compare", &idle, &hog]);
    let warning = "warning: the conditions differ, load: idle in ";
    assert!(compared.errors.contains(warning), "{}", compared.errors);
    let document = root.json(&["latency", "compare", &idle, &hog]);
    let differing = document["conditions"]["differing"].to_string();
    assert!(differing.contains("load: idle in "), "{differing}");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(
        document["ratios"].as_array().map(Vec::len),
        Some(5 * allowed_cpus().len())
    );
    assert_eq!(
        document["conditions"]["runs"][1]["conditions"]["load"],
        "hog"
    );
    // A page can be made of what was measured, and of the comparison.
    let page = root.path().join("page.html");
    root.ok(&["report", &idle, &hog, "-o", page.to_str().expect("plain")]);
    let page = fs::read_to_string(page).expect("written");
    for found in [
        "timer: latency against percentile",
        "timer: histogram",
        "timer: timeline of outliers",
        "host/cpu",
        "hog.json",
    ] {
        assert!(page.contains(found), "no {found}");
    }

    let emulated = kept(&root, "emulated.json", &[], |document| {
        document["machine"]["emulated"] = json!(true)
    });
    let otherwise = kept(&root, "otherwise.json", &[], |document| {
        document["conditions"]["clock"] = json!("instructions")
    });
    for (file, words) in [
        (&emulated, ["is emulated", "is real"]),
        (&otherwise, ["`CLOCK_MONOTONIC`", "`instructions`"]),
    ] {
        let compared = ["latency", "compare", idle.as_str(), file.as_str()];
        root.run(&compared)
            .failed(1, &[words[0], words[1], "--force"]);
        let forced = root.run(&[&compared[..], &["--force"]].concat());
        assert_eq!(forced.code, Some(0), "{}", forced.errors);
        assert!(
            forced.errors.contains("compared all the same") && forced.errors.contains(words[0]),
            "{}",
            forced.errors
        );
    }
}

#[test]
fn what_cannot_be_compared_is_named() {
    let root = Root::new();
    let good = kept(&root, "good.json", &[], |_| {});
    let bad = |name: &str, change: fn(&mut Value)| kept(&root, name, &[], change);
    for (file, words) in [
        (
            bad("newer.json", |document| {
                document["schema"] = json!("hythe.result/2")
            }),
            ["newer.json", "hythe.result/2"],
        ),
        (
            bad("bare.json", |document| document["conditions"] = json!({})),
            ["bare.json", "without its conditions"],
        ),
        (
            bad("other.json", |document| document["bench"] = json!("media")),
            ["other.json", "`media`"],
        ),
        (
            bad("foreign.json", |document| {
                document["results"][0]["histogram"] = json!("SElTVA==")
            }),
            ["foreign.json", "another version"],
        ),
        (
            "/does/not/exist.json".to_owned(),
            ["cannot read", "exist.json"],
        ),
        (support::HYTHE.to_owned(), ["cannot read", "hythe"]),
    ] {
        // Force is for what misleads, not for what cannot be read.
        root.run(&["latency", "compare", &good, &file, "--force"])
            .failed(1, &words);
    }
}
