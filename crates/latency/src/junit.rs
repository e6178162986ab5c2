//! Results as JUnit XML, for continuous integration: a test case for each threshold and result,
//! else for each result.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::LatencyError;
use crate::result::{Document, Measurement};
use crate::threshold::{Verdict, time};

/// The report of a run.
///
/// # Errors
/// [`LatencyError::Junit`]: the writer failed.
pub fn render(document: &Document, verdicts: &[Verdict]) -> Result<String, LatencyError> {
    let failed = |error: io::Error| LatencyError::Junit {
        what: error.to_string(),
    };
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    let declaration = Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None));
    writer.write_event(declaration).map_err(failed)?;
    write_suites(&mut writer, document, verdicts).map_err(failed)?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

type Xml = Writer<Vec<u8>>;

fn write_suites(writer: &mut Xml, document: &Document, verdicts: &[Verdict]) -> io::Result<()> {
    let cases = if verdicts.is_empty() {
        document.results.len()
    } else {
        verdicts.len()
    };
    let failures = verdicts
        .iter()
        .filter(|verdict| verdict.is_exceeded())
        .count();
    let (cases, failures) = (cases.to_string(), failures.to_string());
    let counts = [
        ("tests", cases.as_str()),
        ("failures", failures.as_str()),
        ("errors", "0"),
    ];
    let suites = writer
        .create_element("testsuites")
        .with_attribute(("name", "hythe latency"));
    suites
        .with_attributes(counts)
        .write_inner_content(|writer| {
            let command = xml_text(&document.command);
            let suite = writer
                .create_element("testsuite")
                .with_attribute(("name", command.as_str()));
            suite
                .with_attributes(counts)
                .write_inner_content(|writer| {
                    write_properties(writer, document)?;
                    if verdicts.is_empty() {
                        return document
                            .results
                            .iter()
                            .try_for_each(|result| write_result(writer, result));
                    }
                    verdicts
                        .iter()
                        .try_for_each(|verdict| write_verdict(writer, verdict))
                })?;
            Ok(())
        })?;
    Ok(())
}

/// Machine and conditions: what the figures depend on.
fn write_properties(writer: &mut Xml, document: &Document) -> io::Result<()> {
    let machine = &document.machine;
    let mut properties = vec![
        ("commit".to_owned(), document.commit.clone()),
        ("machine.cpu".to_owned(), machine.cpu.clone()),
        ("machine.cpus".to_owned(), machine.cpus.to_string()),
        ("machine.kernel".to_owned(), machine.kernel.clone()),
        ("machine.emulated".to_owned(), machine.emulated.to_string()),
    ];
    let conditions = document.conditions.iter();
    properties.extend(conditions.map(|(key, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (format!("conditions.{key}"), value)
    }));
    writer
        .create_element("properties")
        .write_inner_content(|writer| {
            for (name, value) in &properties {
                let (name, value) = (xml_text(name), xml_text(value));
                let property = writer.create_element("property");
                let attributes = [("name", name.as_str()), ("value", value.as_str())];
                property.with_attributes(attributes).write_empty()?;
            }
            Ok(())
        })?;
    Ok(())
}

fn write_result(writer: &mut Xml, result: &Measurement) -> io::Result<()> {
    let figures = format!(
        "min {}, p50 {}, p99 {}, p99.9 {}, max {} of {} samples",
        time(result.min),
        time(result.p50),
        time(result.p99),
        time(result.p999),
        time(result.max),
        result.count
    );
    write_case(writer, &result.case, &result.metric, |writer| {
        let output = writer.create_element("system-out");
        output.write_text_content(BytesText::new(&figures))?;
        Ok(())
    })
}

fn write_verdict(writer: &mut Xml, verdict: &Verdict) -> io::Result<()> {
    let limit = time(verdict.above_ns);
    let name = format!("{} {} not above {limit}", verdict.metric, verdict.figure);
    let message = xml_text(&verdict.to_string());
    write_case(writer, &verdict.case, &name, |writer| {
        if verdict.is_exceeded() {
            let failure = writer.create_element("failure");
            let attributes = [("type", "threshold"), ("message", message.as_str())];
            failure.with_attributes(attributes).write_empty()?;
        } else {
            let output = writer.create_element("system-out");
            output.write_text_content(BytesText::new(&message))?;
        }
        Ok(())
    })
}

fn write_case(
    writer: &mut Xml,
    class: &str,
    name: &str,
    inner: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> io::Result<()> {
    let (class, name) = (xml_text(class), xml_text(name));
    let case = writer.create_element("testcase");
    let attributes = [("classname", class.as_str()), ("name", name.as_str())];
    case.with_attributes(attributes)
        .write_inner_content(inner)?;
    Ok(())
}

/// XML has no way to write most control characters, and a core may say anything in its conditions.
fn xml_text(text: &str) -> String {
    let is_control =
        |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    text.chars()
        .map(|letter| {
            if is_control(letter) {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;

    use crate::result::tests::document;
    use crate::threshold::{Threshold, judge};

    use super::*;

    /// The start tags of a report, with their attributes decoded; that it can be read to its end is
    /// a part of the test.
    fn tags(text: &str) -> Vec<String> {
        let mut reader = Reader::from_str(text);
        let mut found = Vec::new();
        loop {
            match reader.read_event().expect("well formed") {
                Event::Start(tag) | Event::Empty(tag) => {
                    let attributes = tag.attributes().map(|attribute| {
                        let attribute = attribute.expect("well formed");
                        let value = quick_xml::escape::unescape(&attribute.value);
                        let value = value.expect("escaped");
                        format!(" {}={value}", attribute.key.as_ref())
                    });
                    let attributes: String = attributes.collect();
                    found.push(tag.name().as_ref().to_owned() + &attributes);
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    #[test]
    fn a_threshold_that_is_exceeded_is_a_failure() {
        let document = document();
        let threshold = Threshold::parse("p50=5.1us").expect("good");
        let strict = Threshold::parse("semaphore:p99.9=1us").expect("good");
        let verdicts = judge(&document, &[threshold, strict]).expect("measured");
        let tags = tags(&render(&document, &verdicts).expect("written"));
        let has = |tag: &str| {
            assert!(
                tags.iter().any(|found| found == tag),
                "no {tag} in {tags:#?}"
            )
        };
        has("testsuites name=hythe latency tests=3 failures=1 errors=0");
        has("testcase classname=hosted/none/idle name=task_switch p50 not above 5.1 us");
        has(
            "failure type=threshold message=hosted/none/idle semaphore: p99.9 is 10.007 us, above 1.000 us",
        );
        assert_eq!(
            tags.iter().filter(|tag| tag.starts_with("failure")).count(),
            1
        );
    }

    #[test]
    fn without_thresholds_each_result_is_a_case_and_any_text_can_be_written() {
        let mut document = document();
        document
            .conditions
            .insert("flags".to_owned(), "-O2 <\"&'>\u{1b}[0m".into());
        let tags = tags(&render(&document, &[]).expect("written"));
        assert!(
            tags.contains(&"testcase classname=hosted/none/idle name=semaphore".to_owned()),
            "{tags:#?}"
        );
        assert!(
            tags.contains(&"property name=conditions.flags value=-O2 <\"&'>\u{fffd}[0m".to_owned()),
            "{tags:#?}"
        );
    }
}
