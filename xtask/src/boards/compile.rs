//! Compiling and linking one program, and leaving alone what is fresh.
//!
//! An object is fresh if it was made by the same command, and is newer than every file that the
//! compiler said it read (`-MD`: by `-MMD` it would leave out FreeRTOSConfig.h, which a system
//! header includes). An image is fresh if it was linked by the same command and is newer than its
//! objects and linker script.

use super::folders::text;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Warnings for our own code.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-Wshadow"];

/// The path of a buffer leads through a dozen small functions in as many files.
pub(super) const LINK_TIME: &str = "-flto";

/// One file to compile.
pub(super) struct Unit {
    source: PathBuf,
    flags: Vec<String>,
}

impl Unit {
    /// A file of this repository.
    pub(super) fn ours(source: PathBuf) -> Self {
        Self {
            source,
            flags: STRICT.map(String::from).into(),
        }
    }

    /// Is it of this file?
    pub(super) fn is(&self, source: &Path) -> bool {
        self.source == source
    }

    /// The same, optimised together with others of its kind when the image is linked.
    pub(super) fn at_link_time(mut self) -> Self {
        self.flags.push(LINK_TIME.into());
        self
    }

    /// A file that is compiled as it came.
    pub(super) fn third_party(source: PathBuf) -> Self {
        Self {
            source,
            flags: vec!["-w".into()],
        }
    }

    /// The same, with a header of ours in front.
    pub(super) fn behind(mut self, header: &Path) -> Self {
        self.flags.extend(["-include".into(), text(header)]);
        self
    }
}

/// What to build, and where to.
pub(super) struct Program {
    /// Folder for objects.
    pub(super) objects: PathBuf,
    /// The file that is wanted.
    pub(super) image: PathBuf,
    /// For each compilation.
    pub(super) flags: Vec<String>,
    /// For linking, behind the objects.
    pub(super) link_flags: Vec<String>,
    /// The files.
    pub(super) units: Vec<Unit>,
}

/// A C compiler that is known to start.
pub(super) struct Compiler {
    command: String,
}

impl Compiler {
    /// The GCC with this prefix; says which package to install if there is none.
    pub(super) fn new(prefix: &str, package: &str) -> Result<Self, String> {
        let command = format!("{prefix}gcc");
        match Command::new(&command).arg("--version").output() {
            Ok(output) if output.status.success() => Ok(Self { command }),
            Ok(output) => Err(format!("{command} --version ended with {}", output.status)),
            Err(error) => Err(format!(
                "{command} did not start ({error}); install it: sudo apt-get install {package}"
            )),
        }
    }

    /// Compiles what is not fresh, and links if anything was or the image is older.
    pub(super) fn build(&self, program: &Program) -> Result<(), String> {
        fs::create_dir_all(&program.objects)
            .map_err(|error| format!("{}: {error}", program.objects.display()))?;
        let mut objects = Vec::new();
        for unit in &program.units {
            objects.push(self.compile(program, unit)?);
        }
        self.link(program, &objects)
    }

    /// Compiles one file, always, and has the compiler write frames and calls beside the object.
    pub(super) fn measure(
        &self,
        flags: &[String],
        source: &Path,
        object: &Path,
    ) -> Result<(), String> {
        let mut arguments = flags.to_vec();
        arguments.extend(["-fcallgraph-info=su".into(), "-c".into(), text(source)]);
        arguments.extend(["-o".into(), text(object)]);
        self.run(object, &arguments)
    }

    fn compile(&self, program: &Program, unit: &Unit) -> Result<PathBuf, String> {
        let object = program.objects.join(object_name(&unit.source)?);
        let depfile = object.with_extension("d");
        let mut arguments = program.flags.clone();
        arguments.extend(unit.flags.iter().cloned());
        arguments.extend(["-MD".into(), "-MF".into(), text(&depfile)]);
        arguments.extend(["-c".into(), text(&unit.source)]);
        arguments.extend(["-o".into(), text(&object)]);
        let inputs = fs::read_to_string(&depfile)
            .map(|text| dependencies(&text))
            .unwrap_or_default();
        if inputs.is_empty() || !self.is_fresh(&object, &arguments, &inputs) {
            self.run(&object, &arguments)?;
        }
        Ok(object)
    }

    fn link(&self, program: &Program, objects: &[PathBuf]) -> Result<(), String> {
        let mut arguments: Vec<String> = objects.iter().map(|object| text(object)).collect();
        arguments.extend(program.link_flags.iter().cloned());
        arguments.extend(["-o".into(), text(&program.image)]);
        let mut inputs = objects.to_vec();
        inputs.extend(
            program
                .link_flags
                .iter()
                .skip_while(|flag| *flag != "-T")
                .nth(1)
                .map(PathBuf::from),
        );
        if !self.is_fresh(&program.image, &arguments, &inputs) {
            self.run(&program.image, &arguments)?;
            println!("{}", program.image.display());
        }
        Ok(())
    }

    /// Made by this command, and newer than all of `inputs`?
    fn is_fresh(&self, output: &Path, arguments: &[String], inputs: &[PathBuf]) -> bool {
        let Some(made) = modified(output) else {
            return false;
        };
        let same_command = fs::read_to_string(command_file(output))
            .is_ok_and(|command| command == self.command_line(arguments));
        same_command
            && inputs
                .iter()
                .all(|input| modified(input).is_some_and(|changed| changed <= made))
    }

    fn run(&self, output: &Path, arguments: &[String]) -> Result<(), String> {
        let record = command_file(output);
        // Without its record an output is not fresh: a build that is cut off here starts again at
        // this file.
        drop(fs::remove_file(&record));
        let status = Command::new(&self.command)
            .args(arguments)
            .status()
            .map_err(|error| format!("{} did not start: {error}", self.command))?;
        if !status.success() {
            return Err(format!(
                "{} ended with {status}:\n  {}",
                self.command,
                self.command_line(arguments)
            ));
        }
        fs::write(&record, self.command_line(arguments))
            .map_err(|error| format!("{}: {error}", record.display()))
    }

    fn command_line(&self, arguments: &[String]) -> String {
        format!("{} {}", self.command, arguments.join(" "))
    }
}

/// Writes an image as the bytes of memory that it is, beside it as `.bin`: what hypervisors load.
pub(super) fn flatten(prefix: &str, image: &Path) -> Result<(), String> {
    let command = format!("{prefix}objcopy");
    let flat = image.with_extension("bin");
    let status = Command::new(&command)
        .args(["-O", "binary"])
        .args([image, &flat])
        .status()
        .map_err(|error| format!("{command} did not start: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "{command} of {} ended with {status}",
            image.display()
        )),
    }
}

/// Two files of one name in different folders must not share an object: the folder's name goes in.
fn object_name(source: &Path) -> Result<String, String> {
    let name =
        |path: Option<&std::ffi::OsStr>| path.map(|name| name.to_string_lossy().into_owned());
    let file = name(source.file_stem());
    let folder = name(source.parent().and_then(Path::file_name));
    match (folder, file) {
        (Some(folder), Some(file)) => Ok(format!("{folder}-{file}.o")),
        _ => Err(format!("{} is not a file in a folder", source.display())),
    }
}

fn command_file(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".command");
    PathBuf::from(name)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// The files behind the colon of a make rule, as `-MD`: FreeRTOS includes its configuration, and
/// what a system header includes `-MMD` would leave out writes it; blanks in names are escaped with
/// a backslash.
fn dependencies(rule: &str) -> Vec<PathBuf> {
    let Some((_, files)) = rule.split_once(": ") else {
        return Vec::new();
    };
    let joined = files.replace("\\\n", " ").replace("\\ ", "\0");
    joined
        .split_whitespace()
        .map(|file| PathBuf::from(file.replace('\0', " ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_over_several_lines_is_read() {
        let rule = "out/a.o: src/a.c src/a.h \\\n /with\\ blank/b.h \\\n c.h\n";
        let expected = ["src/a.c", "src/a.h", "/with blank/b.h", "c.h"].map(PathBuf::from);
        assert_eq!(dependencies(rule), expected);
    }

    #[test]
    fn no_rule_means_no_files() {
        assert!(dependencies("").is_empty());
    }

    #[test]
    fn objects_of_two_folders_do_not_meet() {
        let one = object_name(Path::new("/x/src/queue.c"));
        let other = object_name(Path::new("/x/FreeRTOS-Kernel/queue.c"));
        assert_eq!(one.as_deref(), Ok("src-queue.o"));
        assert_ne!(one, other);
    }

    #[test]
    fn output_is_fresh_only_by_same_command_and_newer() {
        let folder = std::env::temp_dir().join(format!("hythe-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let (input, output) = (folder.join("in"), folder.join("out"));
        let compiler = Compiler {
            command: "cc".into(),
        };
        let arguments = ["-c".to_string()];
        fs::write(&input, "").expect("write");
        fs::write(&output, "").expect("write");
        assert!(!compiler.is_fresh(&output, &arguments, std::slice::from_ref(&input)));
        fs::write(command_file(&output), "cc -c").expect("write");
        assert!(compiler.is_fresh(&output, &arguments, std::slice::from_ref(&input)));
        assert!(!compiler.is_fresh(&output, &["-g".to_string()], std::slice::from_ref(&input)));
        assert!(!compiler.is_fresh(&output, &arguments, &[folder.join("gone")]));
        let later = SystemTime::now() + std::time::Duration::from_secs(10);
        fs::File::options()
            .write(true)
            .open(&input)
            .and_then(|file| file.set_modified(later))
            .expect("a later time");
        assert!(!compiler.is_fresh(&output, &arguments, std::slice::from_ref(&input)));
        fs::remove_dir_all(&folder).expect("clean up");
    }
}
