-- Orders and amounts by hour and currency. Added rows count up and removed rows count down, so the totals stay exact
-- when a load is replayed or rolled back. Rows without a time or a currency belong to no hour.
insert into result as r (hour, currency, orders, amount)
select date_trunc('hour', placed, 'UTC'), currency, sum(sign), sum(sign * coalesce(amount, 0))
from (select placed, currency, amount, 1 as sign from added
      union all
      select placed, currency, amount, -1 from removed) changed
where placed is not null and currency is not null
group by 1, 2
on conflict (hour, currency) do update set orders = r.orders + excluded.orders, amount = r.amount + excluded.amount;

delete from result where orders = 0;
