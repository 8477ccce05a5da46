//! `strftime` of Python in the locale "C", for a time without a zone.
use minijinja::{Error, Value};

use crate::values::{self, wrong};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
];

/// Year, month and day of a number of days since 1970-01-01 (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn civil(days: i64) -> (i64, usize, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as usize, day)
}

/// `seconds` since 1970-01-01 00:00 of the place's own clock.
pub fn strftime(seconds: i64, format: &str) -> Result<Value, Error> {
    crate::budget::spend(format.len().saturating_mul(12))?;
    let days = seconds.div_euclid(86_400);
    let second_of_day = seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let weekday = (days + 4).rem_euclid(7) as usize;
    let leap = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1];
    let day_of_year = before + day + if month > 2 { leap } else { 0 };
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut kind = chars.next();
        let plain = kind == Some('-');
        if plain {
            kind = chars.next();
        }
        let padded = |number: i64, width: usize| if plain { number.to_string() } else { format!("{number:0width$}") };
        let spaced = |number: i64| if plain { number.to_string() } else { format!("{number:2}") };
        out += &match kind {
            Some('Y') => year.to_string(),
            Some('y') => padded(year.rem_euclid(100), 2),
            Some('C') => padded(year.div_euclid(100), 2),
            Some('m') => padded(month as i64, 2),
            Some('d') => padded(day, 2),
            Some('e') => spaced(day),
            Some('H') => padded(hour, 2),
            Some('I') => padded(hour12, 2),
            Some('k') => spaced(hour),
            Some('l') => spaced(hour12),
            Some('M') => padded(minute, 2),
            Some('S') => padded(second, 2),
            Some('f') => "000000".into(),
            Some('j') => padded(day_of_year, 3),
            Some('u') => (if weekday == 0 { 7 } else { weekday }).to_string(),
            Some('w') => weekday.to_string(),
            Some('p') => (if hour < 12 { "AM" } else { "PM" }).into(),
            Some('a') => DAYS[weekday][..3].into(),
            Some('A') => DAYS[weekday].into(),
            Some('b' | 'h') => MONTHS[month - 1][..3].into(),
            Some('B') => MONTHS[month - 1].into(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T' | 'X') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('D' | 'x') => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
            Some('c') => format!(
                "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}",
                &DAYS[weekday][..3],
                &MONTHS[month - 1][..3]
            ),
            Some('n') => "\n".into(),
            Some('t') => "\t".into(),
            Some('%') => "%".into(),
            Some('Z' | 'z') => String::new(),
            Some(other) => return Err(wrong(format!("strftime_now does not know '%{other}'"))),
            None => return Err(wrong("the format of strftime_now ends behind a '%'")),
        };
    }
    values::text(out)
}
