"""The four steps of a load: plan, stage, validate, publish."""
