//! Help, completions, man pages and wrong use: what comes from the definitions alone.

use crate::support;

use std::fs;

use crate::support::Root;

/// Every command, found by asking the help of the one above.
fn commands(root: &Root, above: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = above.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = root.ok(&arguments);
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    // What is deeper in is the rest of a long description.
    let of_command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let lines = listed
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter(of_command);
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let mut found = vec![above.to_vec()];
    for name in names {
        let inner = [above, &[name.to_owned()]].concat();
        found.extend(commands(root, &inner));
    }
    found
}

#[test]
fn every_help_has_an_example() {
    let root = Root::new();
    let commands = commands(&root, &[]);
    assert!(commands.len() >= 14, "{commands:?}");
    for command in commands {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = root.ok(&arguments);
        assert!(help.contains("Example"), "{command:?} has no example");
        assert!(
            help.contains(
                &format!("  hythe {}", command.join(" "))
                    .trim_end()
                    .to_owned()
            ),
            "{command:?}: {help}"
        );
        assert!(
            help.contains("--json"),
            "{command:?} cannot speak to machines"
        );
        assert!(help.contains("HYTHE_POOL"), "{command:?}");
    }
}

#[test]
fn completions_know_every_command() {
    let root = Root::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = root.ok(&["completions", shell]);
        for word in [
            "hythe", "doctor", "pub", "record", "replay", "top", "bench", "report", "create",
            "--json", "allow",
        ] {
            // Fish leaves the dashes to its own options.
            assert!(
                script.contains(word.trim_start_matches("--")),
                "{shell} does not know {word}"
            );
        }
        assert_eq!(
            root.json(&["completions", shell])["script"],
            script.as_str()
        );
    }
    let bash = root.path().join("hythe.bash");
    fs::write(&bash, root.ok(&["completions", "bash"])).expect("own");
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(bash)
        .status()
        .expect("bash");
    assert!(checked.success(), "bash cannot read its completions");
}

#[test]
fn bash_completes_channels() {
    let root = Root::new();
    let script = root.path().join("hythe.bash");
    fs::write(&script, root.ok(&["completions", "bash"])).expect("own");
    let subscriber = root.start(&["sub", "camera/front"]);
    support::eventually("it subscribes", || root.subscribers("camera/front") == 1);
    let complete = "source \"$1\"; COMP_WORDS=(hythe sub cam); COMP_CWORD=2; \
                    _hythe_with_channels hythe cam sub; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let bash = std::process::Command::new("bash");
    let script = script.to_str().expect("plain");
    let program = std::path::Path::new(support::HYTHE);
    let directory = program.parent().expect("a directory").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let done = root
        .command_by(bash, &["-c", complete, "bash", script])
        .env("PATH", format!("{directory}:{path}"))
        .output()
        .expect("bash");
    let words = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(words.lines().any(|word| word == "camera/front"), "{words}");
    for (shell, named) in [("zsh", ":_hythe_channels'"), ("fish", "hz pub record sub")] {
        assert!(root.ok(&["completions", shell]).contains(named), "{shell}");
    }
    subscriber.interrupt();
    subscriber.end();
}

#[test]
fn each_command_has_a_man_page() {
    let root = Root::new();
    let directory = root.path().join("new/man1");
    let document = root.json(&["man", directory.to_str().expect("plain")]);
    let pages = document["pages"].as_array().expect("a list");
    assert_eq!(pages.len(), commands(&root, &[]).len());
    for page in pages {
        let text =
            fs::read_to_string(directory.join(page.as_str().expect("a name"))).expect("written");
        assert!(
            text.contains(".TH hythe") && text.contains("Example"),
            "{page}: {text}"
        );
    }
    assert!(pages.iter().any(|page| page == "hythe-pool-create.1"));
    let blocked = root.path().join("a-file");
    fs::write(&blocked, "").expect("own");
    root.run(&["man", blocked.to_str().expect("plain")])
        .failed(1, &["cannot make", "a-file"]);
}

#[test]
fn wrong_use_exits_2_and_says_why() {
    let root = Root::new();
    let wrong: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["no-such-command"], "no-such-command"),
        (&["pool"], "Usage"),
        (&["pub"], "CHANNEL"),
        (&["pool", "create", "--size", "12Q"], "64M"),
        (&["pool", "create", "--size", "0"], "at least 1"),
        (&["pool", "create", "--class", "64K"], "64Kx100"),
        (
            &[
                "pool", "create", "--class", "64Kx1", "--exact", "--size", "64M",
            ],
            "cannot be used with",
        ),
        (&["pool", "create", "--mode", "777"], "660"),
        (&["sub", "x", "--raw", "--hex"], "cannot be used with"),
        (&["sub", "x", "--raw", "--json"], "cannot be used with"),
        (&["sub", "x", "--count", "0"], "0"),
        (&["sub", "x", "--timeout", "0"], "number of seconds above 0"),
        (&["pub", "x", "--rate", "0"], "messages per second"),
        (&["completions", "cmd.exe"], "bash"),
        (&["pool", "create", ".hidden"], "does not start with a dot"),
        (&["pool", "create", "a/b"], "there is no user `a`"),
        (&["pool", "create", "a/b/c"], "one path component"),
        (&["pool", "show", ""], "1 to 64 bytes"),
        (&["pub", "x", "/"], "is a directory"),
        (
            &["pub", "x", "--repeat", "2", "--lines"],
            "standard input can be cut only once",
        ),
    ];
    for (arguments, word) in wrong {
        let ended = root.run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.errors);
        assert!(
            ended.errors.contains(word),
            "{arguments:?}: no `{word}` in {}",
            ended.errors
        );
        assert_eq!(ended.text(), "", "{arguments:?}");
    }
    let mut command = root.command(&["list"]);
    command.env("RUST_LOG", "a=b=c");
    support::Running::new(command)
        .end()
        .failed(2, &["RUST_LOG=`a=b=c`", "try RUST_LOG=debug"]);
}

#[test]
fn host_name_without_its_option_is_refused_with_where_it_goes() {
    let root = Root::new();
    let refused = root.run(&["host", "init", "hub"]);
    refused.failed(2, &["'hub'", "tip:", "hythe host init --name hub"]);
    // An option that is misspelt is not a name.
    let refused = root.run(&["host", "init", "--nme", "hub"]);
    refused.failed(2, &["'--nme'"]);
    assert!(
        !refused.errors.contains("goes behind"),
        "{}",
        refused.errors
    );
}
