// Numbers, durations and times as people read them.
import { h, Text } from "./host.js";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const SECONDS = { d: 86400, h: 3600, min: 60, s: 1 };
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const DAY = { day: "numeric", month: "short" };

export const count = (number) => (number === null || number === undefined ? "–" : WHOLE.format(number));

// At most three digits, such as 1.31M; the whole number belongs into the title.
export function short(number) {
  if (number === null || number === undefined) return "–";
  return Math.abs(number) < 10000 ? WHOLE.format(number) : SHORT.format(number);
}

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 1000) / 10} %`);

// The two greatest units that are not zero: "6 d 3 h", "58 min", "240 ms".
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, length] of Object.entries(SECONDS)) {
    const amount = Math.floor(rest / length);
    rest -= amount * length;
    if (amount || parts.length) parts.push([amount, unit]);
  }
  return parts.slice(0, 2).filter(([amount]) => amount).map(([amount, unit]) => `${amount} ${unit}`).join(" ");
}

export const ago = (at, now = Date.now()) => `${duration(Math.max(0, (now - Date.parse(at)) / 1000))} ago`;

export const inUtc = (at) => `${new Date(at).toISOString().replace("T", " ").slice(0, 19)} UTC`;

// A time in the zone of the person who looks, with the day unless it is today.
export function local(at, now = new Date()) {
  const moment = new Date(at);
  const clock = moment.toLocaleTimeString("en-GB", CLOCK);
  if (moment.toDateString() === now.toDateString()) return clock;
  const year = moment.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  return `${moment.toLocaleDateString("en-GB", { ...DAY, ...year })} ${clock}`;
}

// A time for people: in their zone, and in UTC on hover.
export function Time({ at, since = false }) {
  if (!at) return "–";
  return h("time", { dateTime: at, title: inUtc(at) }, since ? ago(at) : local(at));
}

// A number in short form, with the whole number on hover.
export const Short = ({ number }) => h("span", { title: count(number) }, short(number));

export const Muted = ({ children, ...more }) => h(
  Text,
  { as: "span", color: "fg.muted", fontSize: "sm", ...more },
  children,
);

export const ranges = (list) => list.map(
  (each) => `${each.partition}:${count(each.from)}–${count(each.until)}`,
).join(", ");
