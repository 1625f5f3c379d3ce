// States and kinds: each has a colour and a sign, because colour alone has no meaning for everyone.

export const HEALTH = {
  ok: { palette: "green", sign: "✓", rank: 9 },
  new: { palette: "gray", sign: "○", rank: 6 },
  behind: { palette: "blue", sign: "↓", rank: 7 },
  loading: { palette: "blue", sign: "▸", rank: 8 },
  held: { palette: "orange", sign: "‖", rank: 2 },
  stalled: { palette: "orange", sign: "…", rank: 3 },
  failed: { palette: "red", sign: "✕", rank: 1 },
  log_lost: { palette: "red", sign: "!", rank: 0 },
  other_topic: { palette: "red", sign: "≠", rank: 0 },
  faulty: { palette: "red", sign: "!", rank: 1 },
  bad_target: { palette: "red", sign: "!", rank: 1 },
  broken: { palette: "red", sign: "✕", rank: 1 },
  unknown: { palette: "gray", sign: "?", rank: 4 },
};

export const LOAD = {
  planned: { palette: "blue", sign: "○" },
  staging: { palette: "blue", sign: "▸" },
  staged: { palette: "blue", sign: "▸" },
  validated: { palette: "blue", sign: "▸" },
  published: { palette: "green", sign: "✓" },
  held: { palette: "orange", sign: "‖" },
  failed: { palette: "red", sign: "✕" },
  superseded: { palette: "gray", sign: "↷" },
  discarded: { palette: "gray", sign: "–" },
  rolled_back: { palette: "purple", sign: "↶" },
};
export const OPEN_LOADS = ["planned", "staging", "staged", "validated"];

// In the order of the legend. `pattern` is drawn over the colour, see patterns.js.
export const COVERAGE = {
  published: { words: "published", palette: "green", pattern: null },
  pending: { words: "in an open load", palette: "blue", pattern: "stripes" },
  quarantined: { words: "quarantined", palette: "yellow", pattern: "dots" },
  hole: { words: "holes", palette: "gray", pattern: "lines" },
  filtered: { words: "filtered by the transform", palette: "gray", pattern: "dots" },
  unexplained_hole: { words: "unexplained holes", palette: "red", pattern: "dots" },
  gap: { words: "gaps", palette: "orange", pattern: "frame" },
  lost: { words: "lost", palette: "red", pattern: "crosses" },
  rolled_back: { words: "rolled back", palette: "purple", pattern: "back" },
  expired: { words: "not loaded, deleted from the log", palette: "gray", pattern: "bars" },
  not_loaded: { words: "not loaded yet", palette: null, pattern: "frame" },
};

export const RUN = {
  queued: { palette: "gray", sign: "○" },
  running: { palette: "blue", sign: "▸" },
  success: { palette: "green", sign: "✓" },
  failed: { palette: "red", sign: "✕" },
  unknown: { palette: "gray", sign: "?" },
};

export const RESULT = {
  passed: { words: "passed", palette: "green", sign: "" },
  info: { words: "failed, for information", palette: "blue", sign: "i" },
  warning: { words: "failed as a warning", palette: "yellow", sign: "!" },
  error: { words: "failed", palette: "red", sign: "✕" },
};

// The states of a table that is derived from the rows.
export const DERIVED = {
  current: { palette: "green", sign: "✓" },
  building: { palette: "blue", sign: "▸" },
  waiting: { palette: "orange", sign: "‖" },
  declared: { palette: "gray", sign: "○" },
};

export const spaced = (word) => word.replaceAll("_", " ");
