//! Chromium without a window, led over a pipe: messages of its DevTools protocol, JSON with a zero
//! byte behind each.
//!
//! It gets a profile of its own, which is empty at first and removed at last, and no names are
//! resolved for it. Every wait has an end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::eventually;

/// For one answer. A page of a hundred drawings on a machine that does something else as well takes
/// seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Highest picture: what is longer goes on in the next.
const PICTURE_HEIGHT: u64 = 5000;
/// The pipe is to be open as 3 and 4; a process that Rust starts has it as 0 and 1.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

const FLAGS: [&str; 17] = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-domain-reliability",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    // Whoever asks for a host gets none.
    "--host-resolver-rules=MAP * ~NOTFOUND",
];

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) is_dark: bool,
    pub(crate) is_phone: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Addresses that were asked for, the page's own among them.
    pub(crate) requests: Vec<String>,
    /// Errors and warnings, and whatever else stands on the console.
    pub(crate) said: Vec<String>,
}

/// A browser with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    events: Vec<Value>,
    profile: PathBuf,
}

impl Browser {
    /// None: there is no such program.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let program = Path::new("/usr/bin/chromium");
        if !program.is_file() {
            return None;
        }
        let profile = folder.join("profile");
        fs::create_dir(&profile).expect("a fresh directory");
        let errors = File::create(folder.join("chromium.log")).expect("own");
        let mut command = Command::new("sh");
        command.args(["-c", PIPES, "sh"]).arg(program).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.display()));
        if rustix::process::geteuid().is_root() {
            // It refuses to build one as root.
            command.arg("--no-sandbox");
        }
        let mut child = command
            .env("HOME", folder)
            // Where it leaves folders behind.
            .env("TMPDIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("a shell");
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (sender, receiver) = channel();
        let mut from = BufReader::new(from.expect("piped"));
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while let Ok(1..) = from.read_until(0, &mut message) {
                message.pop();
                let read = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(read).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to: to.expect("piped"),
            from: receiver,
            last_id: 0,
            session: None,
            events: Vec::new(),
            profile,
        };
        browser.open();
        Some(browser)
    }

    fn open(&mut self) {
        let version = self.call("Browser.getVersion", &json!({}));
        println!("{}", version["product"].as_str().unwrap_or("no name"));
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", &target);
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.call("Network.setCacheDisabled", &json!({"cacheDisabled": true}));
    }

    /// Opens a page, and waits until it has been drawn.
    pub(crate) fn visit(&mut self, page: &Path, view: &View) -> Seen {
        let scheme = if view.is_dark { "dark" } else { "light" };
        let metrics = json!({"width": view.width, "height": view.height, "deviceScaleFactor": 1, "mobile": view.is_phone});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &media);
        self.events.clear();
        let url = format!("file://{}", page.display());
        let gone = self.call("Page.navigate", &json!({"url": url}));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.wait_for("Page.loadEventFired");
        let drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))";
        assert_eq!(self.evaluate(drawn), 1);
        let mut seen = Seen::default();
        for event in &self.events {
            let params = &event["params"];
            match event["method"].as_str() {
                Some("Network.requestWillBeSent") => {
                    let url = params["request"]["url"].as_str().unwrap_or("?");
                    if !url.starts_with("data:") {
                        seen.requests.push(url.to_owned());
                    }
                }
                Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                    seen.said.push(params.to_string());
                }
                _ => {}
            }
        }
        seen
    }

    /// What an expression on the page yields.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// The whole page, in as many files as it takes, up to `most`: `NAME-1.png` and so on.
    pub(crate) fn picture(&mut self, folder: &Path, name: &str, most: u64) {
        let size = self.evaluate(
            "[document.documentElement.clientWidth, document.documentElement.scrollHeight]",
        );
        let [width, height] = [0, 1].map(|at| size[at].as_u64().expect("a number"));
        for part in 0..height.div_ceil(PICTURE_HEIGHT).min(most) {
            let top = part * PICTURE_HEIGHT;
            let clip = json!({"x": 0, "y": top, "width": width, "height": PICTURE_HEIGHT.min(height - top), "scale": 1});
            let asked = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
            let answer = self.call("Page.captureScreenshot", &asked);
            let data = answer["data"].as_str().expect("a picture");
            let picture = STANDARD.decode(data).expect("base64");
            fs::write(folder.join(format!("{name}-{}.png", part + 1)), picture).expect("own");
        }
    }

    /// Ends it, and waits until nothing of it runs.
    pub(crate) fn close(mut self) {
        self.session = None;
        self.call("Browser.close", &json!({}));
        eventually("the browser ends", || {
            self.child.try_wait().expect("own child").is_some()
        });
        let profile = self.profile.clone();
        eventually("no process of the browser is left", || !runs_with(&profile));
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let sent = write!(self.to, "{message}\0").and_then(|()| self.to.flush());
        sent.unwrap_or_else(|error| panic!("{method}: {error}; see chromium.log"));
        let mut answer = self.wait(method, |message| message["id"] == id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    fn wait_for(&mut self, event: &str) {
        let is_here = self.events.iter().any(|past| past["method"] == event);
        if !is_here {
            let found = self.wait(event, |message| message["method"] == event);
            self.events.push(found);
        }
    }

    /// Keeps what else comes meanwhile.
    fn wait(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let left = TIME_LIMIT.saturating_sub(start.elapsed());
            let message = self.from.recv_timeout(left);
            let message =
                message.unwrap_or_else(|error| panic!("{what}: {error}; see chromium.log"));
            if is_it(&message) {
                return message;
            }
            self.events.push(message);
        }
    }
}

impl Drop for Browser {
    /// Its other processes end with it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is there a process that was started with this profile?
fn runs_with(profile: &Path) -> bool {
    let wanted = profile.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = processes
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit)
        })
        .map(|entry| fs::read(entry.path().join(OsStr::new("cmdline"))).unwrap_or_default());
    lines
        .into_iter()
        .any(|line| line.windows(wanted.len()).any(|part| part == wanted))
}
