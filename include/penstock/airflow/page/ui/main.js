// The page of Penstock. React and Chakra come from Airflow's own page.
const { createElement: h, useEffect, useState } = globalThis.React;
const { Box, Heading, Text } = globalThis.ChakraUI;

// The API is served beside the folder of this file, wherever Airflow is mounted.
const API = new URL("../api", import.meta.url).href;

function Penstock({ dagId }) {
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    fetch(`${API}/pipelines${dagId ? `/${dagId}` : ""}`)
      .then((reply) => (reply.ok ? reply.json() : Promise.reject(new Error(`the server answered ${reply.status}`))))
      .then(setAnswer, setError);
  }, [dagId]);
  if (error) return h(Text, { p: 4 }, error.message);
  if (!answer) return h(Text, { p: 4 }, "Loading");
  const pipelines = answer.pipelines || [answer];
  return h(Box, { p: 4 }, pipelines.map((each) =>
    h(Box, { key: each.name, mb: 4 },
      h(Heading, { size: "md" }, `${each.name}: ${each.state}`),
      h(Text, null, each.cause),
      h(Text, { color: "fg.muted" }, `Next: ${each.next_step}`))));
}

globalThis.Penstock = Penstock;
globalThis.AirflowPlugin = Penstock;
