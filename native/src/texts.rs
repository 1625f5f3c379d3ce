//! Texts, and values that JSON holds as text: bytes in base64, and UUIDs.

use std::borrow::Cow;

use crate::cursor::{Span, Sure, Token, Uncertain, unescape};

/// The content of a JSON string, unescaped.
#[inline(always)]
pub fn read_string<'a>(text: &'a [u8], span: Span) -> Sure<Cow<'a, [u8]>> {
    match span.token {
        Token::Plain => Ok(Cow::Borrowed(span.of(text))),
        Token::Escaped => Ok(Cow::Owned(unescape(span.of(text))?)),
        _ => Err(Uncertain),
    }
}

/// Refuses a text that PostgreSQL cannot hold, or that has more characters than its column.
#[inline(always)]
pub fn check_text(text: &[u8], most: Option<usize>) -> Sure<()> {
    if text.contains(&0) {
        return Err(Uncertain);
    }
    match most {
        Some(most) if text.len() > most && count_characters(text) > most => Err(Uncertain),
        _ => Ok(()),
    }
}

/// Counts the characters of UTF-8 text.
pub fn count_characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Decodes base64 in its one strict form: padded, with no bits left over.
pub fn decode_base64(text: &[u8]) -> Sure<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return Err(Uncertain);
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    for four in text[..text.len() - padding].chunks(4) {
        let mut bits = 0u32;
        for place in 0..4 {
            bits = bits << 6 | four.get(place).map_or(Ok(0), |byte| read_base64(*byte))?;
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        let kept = four.len() - 1;
        if bytes[kept..].iter().any(|byte| *byte != 0) {
            return Err(Uncertain);
        }
        decoded.extend_from_slice(&bytes[..kept]);
    }
    Ok(decoded)
}

fn read_base64(byte: u8) -> Sure<u32> {
    Ok(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return Err(Uncertain),
    } as u32)
}

/// Reads a UUID with its four hyphens.
pub fn read_uuid(text: &[u8]) -> Sure<[u8; 16]> {
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|place| text[*place] != b'-') {
        return Err(Uncertain);
    }
    let mut digits =
        text.iter().enumerate().filter(|(place, _)| ![8, 13, 18, 23].contains(place)).map(|(_, byte)| byte);
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        for _ in 0..2 {
            let digit = digits.next().and_then(|byte| (*byte as char).to_digit(16)).ok_or(Uncertain)?;
            *byte = *byte << 4 | digit as u8;
        }
    }
    Ok(uuid)
}
