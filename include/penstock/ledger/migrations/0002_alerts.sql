-- Alerts: an event 'alerted:<kind>' says that one was delivered. One of each kind for a load, whatever is tried again.
create unique index event_alerted_once on penstock.event (load_id, what) where what like 'alerted:%';
