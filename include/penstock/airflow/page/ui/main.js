// Airflow imports this module, and shows the component `AirflowPlugin` in the navigation and as a tab of each DAG.
import { h, useSearchParams } from "./host.js";
import { Pipelines } from "./index.js";
import { Pipeline } from "./pipeline.js";

// As a tab it gets the DAG's id, which is the name of its pipeline. In the navigation the address names the pipeline.
function Penstock({ dagId }) {
  const [search] = useSearchParams();
  const name = dagId ?? search.get("pipeline");
  return name ? h(Pipeline, { key: name, name, isTab: Boolean(dagId) }) : h(Pipelines);
}

globalThis.Penstock = Penstock;
globalThis.AirflowPlugin = Penstock;
