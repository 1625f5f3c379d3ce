"""Events of OpenLineage about published loads. Its client is an optional package, imported only to emit."""
