//! Results as JUnit XML, for continuous integration: a test case for each threshold and result,
//! else for each result.
//!
//! The command writes it to the file of `--junit`. Pure: it returns text and writes no file.

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::LatencyError;
use crate::result::{Document, Measurement};
use crate::threshold::{Verdict, time};

/// The report of a run. Characters that XML cannot hold, such as escape sequences of a terminal,
/// are left out.
///
/// # Errors
/// [`LatencyError::Junit`]: the writer failed.
pub fn render(document: &Document, verdicts: &[Verdict]) -> Result<String, LatencyError> {
    let mut suite = TestSuite::new(document.command.as_str());
    suite.add_properties(properties(document));
    if verdicts.is_empty() {
        suite.add_test_cases(document.results.iter().map(of_result));
    } else {
        suite.add_test_cases(verdicts.iter().map(of_verdict));
    }
    let mut report = Report::new("hythe latency");
    report.add_test_suite(suite);
    report.to_string().map_err(|error| LatencyError::Junit {
        what: error.to_string(),
    })
}

/// Machine and conditions: what the figures depend on.
fn properties(document: &Document) -> Vec<Property> {
    let machine = &document.machine;
    let mut properties = vec![
        Property::new("commit", document.commit.as_str()),
        Property::new("machine.cpu", machine.cpu.as_str()),
        Property::new("machine.cpus", machine.cpus.to_string()),
        Property::new("machine.kernel", machine.kernel.as_str()),
        Property::new("machine.emulated", machine.emulated.to_string()),
    ];
    let conditions = document.conditions.iter();
    properties.extend(conditions.map(|(key, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Property::new(format!("conditions.{key}"), value)
    }));
    properties
}

fn of_result(result: &Measurement) -> TestCase {
    let figures = format!(
        "min {}, p50 {}, p99 {}, p99.9 {}, max {} of {} samples",
        time(result.min),
        time(result.p50),
        time(result.p99),
        time(result.p999),
        time(result.max),
        result.count
    );
    let mut case = TestCase::new(result.metric.as_str(), TestCaseStatus::success());
    case.set_classname(result.case.as_str());
    case.set_system_out(figures);
    case
}

fn of_verdict(verdict: &Verdict) -> TestCase {
    let limit = time(verdict.above_ns);
    let name = format!("{} {} not above {limit}", verdict.metric, verdict.figure);
    let message = verdict.to_string();
    let mut case = if verdict.is_exceeded() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_type("threshold").set_message(message);
        TestCase::new(name, status)
    } else {
        let mut case = TestCase::new(name, TestCaseStatus::success());
        case.set_system_out(message);
        case
    };
    case.set_classname(verdict.case.as_str());
    case
}

#[cfg(test)]
mod tests {
    use crate::result::tests::document;
    use crate::threshold::{Threshold, judge};

    use super::*;

    /// The one suite of a report that is read again as a reader of JUnit reads it.
    fn suite(document: &Document, verdicts: &[Verdict]) -> (Report, TestSuite) {
        let text = render(document, verdicts).expect("written");
        let mut report = Report::deserialize_from_str(&text).expect("well formed");
        assert_eq!(report.name.as_deref(), Some("hythe latency"));
        assert_eq!(report.test_suites.len(), 1);
        let suite = report.test_suites.remove(0);
        assert_eq!(suite.name.as_str(), document.command);
        (report, suite)
    }

    fn value<'s>(suite: &'s TestSuite, name: &str) -> Option<&'s str> {
        let mut properties = suite.properties.iter();
        let property = properties.find(|property| property.name.as_str() == name)?;
        Some(property.value.as_str())
    }

    #[test]
    fn threshold_that_is_exceeded_is_a_failure() {
        let document = document();
        let threshold = Threshold::parse("p50=5.1us").expect("good");
        let strict = Threshold::parse("semaphore:p99.9=1us").expect("good");
        let verdicts = judge(&document, &[threshold, strict]).expect("measured");
        let (report, suite) = suite(&document, &verdicts);
        assert_eq!((report.tests, report.failures, report.errors), (3, 1, 0));
        assert_eq!((suite.tests, suite.failures, suite.errors), (3, 1, 0));
        let case = suite
            .test_cases
            .iter()
            .find(|case| case.name.as_str() == "task_switch p50 not above 5.1 us")
            .expect("a case for each threshold and result");
        assert_eq!(case.classname.as_deref(), Some("hosted/none/idle"));
        assert_eq!(case.status, TestCaseStatus::success());
        assert!(
            case.system_out.is_some(),
            "the figure of a case that passed"
        );
        let failures = suite
            .test_cases
            .iter()
            .filter_map(|case| match &case.status {
                TestCaseStatus::NonSuccess { message, ty, .. } => Some((message, ty)),
                _ => None,
            });
        let failures: Vec<_> = failures.collect();
        let [(message, ty)] = failures[..] else {
            panic!("one failure is expected: {failures:?}");
        };
        assert_eq!(ty.as_deref(), Some("threshold"));
        let expected = "hosted/none/idle semaphore: p99.9 is 10.007 us, above 1.000 us";
        assert_eq!(message.as_deref(), Some(expected));
    }

    #[test]
    fn junit_has_a_case_per_result_and_escapes_text() {
        let mut document = document();
        let flags = "-O2 <\"&'>\u{1b}[0m\u{0}";
        document.conditions.insert("flags".to_owned(), flags.into());
        let (_, suite) = suite(&document, &[]);
        assert_eq!(suite.test_cases.len(), document.results.len());
        let case = suite
            .test_cases
            .iter()
            .find(|case| case.name.as_str() == "semaphore")
            .expect("a case for each result");
        assert_eq!(case.classname.as_deref(), Some("hosted/none/idle"));
        let figures = case.system_out.as_deref().expect("figures");
        assert!(figures.contains("p99.9 10.0 us"), "{figures}");
        assert_eq!(value(&suite, "conditions.flags"), Some("-O2 <\"&'>"));
        let cpus = document.machine.cpus.to_string();
        assert_eq!(value(&suite, "machine.cpus"), Some(cpus.as_str()));
        assert_eq!(value(&suite, "commit"), Some(document.commit.as_str()));
    }
}
