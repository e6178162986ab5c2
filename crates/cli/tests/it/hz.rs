//! `hythe hz --gaps`: the times between messages, as a subscriber meets them.

use std::fs;

use crate::support::{Root, eventually};

#[test]
fn gaps_are_those_of_the_publisher() {
    let root = Root::new();
    let source = root.path().join("source");
    fs::write(&source, [7; 100]).expect("own");
    root.ok(&["pool", "create"]);
    root.run(&["hz", "data", "--gaps"])
        .failed(1, &["no channel", "data"]);
    let source = source.to_str().expect("plain");
    let publisher = root.start(&["pub", "data", source, "--repeat", "0", "--rate", "100"]);
    eventually("it publishes", || {
        root.json(&["list"])["channels"][0]["name"] == "data"
    });
    let document = root.json(&["hz", "data", "--gaps", "--interval", "0.5", "--count", "2"]);
    assert_eq!(document["intervals"], 2);
    let rates = document["rates"].as_array().expect("a list");
    for rate in rates {
        assert_eq!(
            (&rate["min_bytes"], &rate["max_bytes"]),
            (&100.into(), &100.into()),
            "{rate}"
        );
        let gaps = &rate["gaps"];
        let figure = |name: &str| {
            gaps[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name} in {rate}"))
        };
        assert!(
            figure("min_ns") <= figure("mean_ns") && figure("mean_ns") <= figure("max_ns"),
            "{rate}"
        );
        assert!(
            figure("p50_ns") <= figure("p99_ns") && figure("deviation_ns") >= 0.0,
            "{rate}"
        );
        // A hundred each second: no gap is that of a spinning publisher, apart from ones that catch
        // up.
        assert!(figure("mean_ns") > 1e6, "{rate}");
    }
    let line = root.ok(&["hz", "data", "--gaps", "--interval", "0.3", "--count", "1"]);
    assert!(
        line.contains("100 B to 100 B") && line.contains("deviation"),
        "{line}"
    );
    // It has left.
    assert_eq!(root.subscribers("data"), 0);
    publisher.interrupt();
    publisher.end().succeeded();
}
