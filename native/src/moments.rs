//! Dates and times: ISO 8601 texts, as microseconds since 1970. A fraction beyond the microsecond is truncated.

use crate::cursor::{Sure, Uncertain};

const DAY: i64 = 86_400_000_000;
/// 4714-11-24 BC is PostgreSQL's first day.
const FIRST: i64 = -210_866_803_200_000_000;

/// Refuses moments that PostgreSQL cannot hold.
#[inline(always)]
pub fn check_micros(micros: i64) -> Sure<i64> {
    if micros < FIRST { Err(Uncertain) } else { Ok(micros) }
}

/// The timestamp of one of Kafka's records.
#[inline(always)]
pub fn read_millis(millis: i64) -> Sure<i64> {
    check_micros(millis.checked_mul(1_000).ok_or(Uncertain)?)
}

/// Days since 1970.
#[inline(always)]
pub fn read_date(text: &[u8]) -> Sure<i32> {
    let (days, rest) = read_days(text)?;
    if rest.is_empty() { Ok(days) } else { Err(Uncertain) }
}

/// Microseconds since midnight.
#[inline(always)]
pub fn read_time(text: &[u8]) -> Sure<i64> {
    let (micros, rest) = read_clock(text)?;
    if rest.is_empty() { Ok(micros) } else { Err(Uncertain) }
}

#[inline(always)]
pub fn read_timestamp(text: &[u8]) -> Sure<i64> {
    let (days, rest) = read_days(text)?;
    let clock = if rest.is_empty() { 0 } else { read_time(skip_separator(rest)?)? };
    Ok(days as i64 * DAY + clock)
}

#[inline(always)]
pub fn read_timestamptz(text: &[u8]) -> Sure<i64> {
    let (days, rest) = read_days(text)?;
    let (clock, zone) = read_clock(skip_separator(rest)?)?;
    Ok(days as i64 * DAY + clock - read_zone(zone)?)
}

#[inline(always)]
fn skip_separator(text: &[u8]) -> Sure<&[u8]> {
    match text.split_first() {
        Some((b'T' | b' ', rest)) => Ok(rest),
        _ => Err(Uncertain),
    }
}

#[inline(always)]
fn two(text: &[u8], at: usize) -> Sure<i64> {
    match text.get(at..at + 2) {
        Some([tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => Ok(((tens - b'0') * 10 + ones - b'0') as i64),
        _ => Err(Uncertain),
    }
}

#[inline(always)]
fn read_days(text: &[u8]) -> Sure<(i32, &[u8])> {
    if text.len() < 10 || text[4] != b'-' || text[7] != b'-' {
        return Err(Uncertain);
    }
    let (year, month, day) = (two(text, 0)? * 100 + two(text, 2)?, two(text, 5)?, two(text, 8)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + is_leap as i64,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err(Uncertain),
    };
    if year == 0 || !(1..=last).contains(&day) {
        return Err(Uncertain);
    }
    Ok((count_days(year, month, day), &text[10..]))
}

/// Days since 1970, in years that begin with March, so that the leap day is the last one.
#[inline(always)]
fn count_days(year: i64, month: i64, day: i64) -> i32 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468) as i32
}

/// Reads hh:mm, hh:mm:ss or hh:mm:ss.f, with any number of digits behind the point.
#[inline(always)]
fn read_clock(text: &[u8]) -> Sure<(i64, &[u8])> {
    let (hour, minute) = (two(text, 0)?, two(text, 3)?);
    if hour > 23 || minute > 59 || text[2] != b':' {
        return Err(Uncertain);
    }
    let mut micros = (hour * 3600 + minute * 60) * 1_000_000;
    if text.get(5) != Some(&b':') {
        return Ok((micros, &text[5..]));
    }
    let second = two(text, 6)?;
    if second > 59 {
        return Err(Uncertain);
    }
    micros += second * 1_000_000;
    if text.get(8) != Some(&b'.') {
        return Ok((micros, &text[8..]));
    }
    let count = text[9..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(Uncertain);
    }
    let mut fraction = 0;
    for place in 0..6 {
        fraction = fraction * 10 + if place < count { (text[9 + place] - b'0') as i64 } else { 0 };
    }
    Ok((micros + fraction, &text[9 + count..]))
}

/// Reads Z, +hh, +hhmm or +hh:mm, as microseconds.
#[inline(always)]
fn read_zone(text: &[u8]) -> Sure<i64> {
    let (sign, rest) = match text.split_first() {
        Some((b'Z', [])) => return Ok(0),
        Some((b'+', rest)) => (1, rest),
        Some((b'-', rest)) => (-1, rest),
        _ => return Err(Uncertain),
    };
    let minutes = match rest.len() {
        2 => 0,
        4 => two(rest, 2)?,
        5 if rest[2] == b':' => two(rest, 3)?,
        _ => return Err(Uncertain),
    };
    let hours = two(rest, 0)?;
    if hours > 23 || minutes > 59 {
        return Err(Uncertain);
    }
    Ok(sign * (hours * 3600 + minutes * 60) * 1_000_000)
}
