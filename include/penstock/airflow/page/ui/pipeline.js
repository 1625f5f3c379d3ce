// The page of one pipeline: its head, and the sections below it.
import { Box, Stack, h, useState } from "./host.js";
import { ActionsProvider, DeclaredProvider, RightsProvider } from "./actions.js";
import { useDocument, useTick } from "./api.js";
import { Backfill, NO_DRAFT } from "./backfill.js";
import { CoverageMap } from "./coverage.js";
import { Events, Incidents } from "./events.js";
import { Head } from "./head.js";
import { Loads } from "./loads.js";
import { Filled, Link } from "./parts.js";
import { Quality } from "./quality.js";
import { Quarantine } from "./quarantine.js";
import { Results } from "./results.js";
import { Tiles } from "./tiles.js";

export function Pipeline({ name, isTab }) {
  const [busy, setBusy] = useState(false);
  const [tick, advance] = useTick(busy);
  const found = useDocument(`pipelines/${encodeURIComponent(name)}`, {}, tick);
  const rights = useDocument(`pipelines/${encodeURIComponent(name)}/rights`, {});
  if (found.document && found.document.busy !== busy) setBusy(found.document.busy);
  return h(
    Box,
    { p: 4, maxW: "1400px", mx: "auto", overflow: "auto" },
    h(
      ActionsProvider,
      { onChange: advance },
      h(
        Stack,
        { gap: 4 },
        !isTab && h(Box, { fontSize: "sm" }, h(Link, { to: "/plugin/penstock" }, "‹ all pipelines")),
        h(
          RightsProvider,
          { value: rights.document },
          h(
            DeclaredProvider,
            { value: found.document?.state !== "broken" },
            h(Filled, { found }, (head) => h(Sections, { head, name, tick })),
          ),
        ),
      ),
    ),
  );
}

function Sections({ head, name, tick }) {
  const [draft, setDraft] = useState(NO_DRAFT);
  const offer = (chosen) => setDraft({ ...NO_DRAFT, ...chosen, shown: Date.now() });
  return h(
    Stack,
    { gap: 4 },
    h(Head, { head, onBackfill: offer }),
    h(Tiles, { head }),
    h(CoverageMap, { name, tick, onBackfill: offer }),
    h(Loads, { name, tick }),
    h(Results, { name, tick }),
    h(Quality, { name, tick }),
    h(Quarantine, { name, tick }),
    h(Backfill, { name, tick, draft, setDraft }),
    h(Incidents, { name, tick }),
    h(Events, { name, tick }),
  );
}
