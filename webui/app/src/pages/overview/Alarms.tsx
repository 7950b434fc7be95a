import { useState } from "react";
import type { Alarm } from "../../api/types";
import { Ago, Button, Card, Icon } from "../../components";
import { Link } from "../../router";
import { routeOfAlarm } from "../../routes";

/** Lines that are shown until all are asked for: the figures below should stay in sight. */
const SHOWN = 4;

/** What an operator must know of, the worst first. */
export function Alarms({ alarms }: { alarms: readonly Alarm[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole || alarms.length === SHOWN + 1 ? alarms : alarms.slice(0, SHOWN);
  const toggle = (
    <Button size="small" variant="ghost" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
      {isWhole ? "Show fewer" : `Show all ${alarms.length}`}
    </Button>
  );
  return (
    <Card
      title={alarms.length === 1 ? "1 alarm" : `${alarms.length} alarms`}
      actions={alarms.length > SHOWN + 1 && toggle}
      flush
    >
      <ul className="alarms" aria-live="polite">
        {shown.map((alarm) => (
          <AlarmLine key={alarm.id} alarm={alarm} />
        ))}
      </ul>
    </Card>
  );
}

function AlarmLine({ alarm }: { alarm: Alarm }) {
  const { severity, title, detail, since, page } = alarm;
  const route = routeOfAlarm(page);
  return (
    <li className={`alarm alarm-${severity}`}>
      <Icon name={severity === "critical" ? "error" : "warning"} />
      <div className="alarm-text">
        <p>
          <b>{title}</b> <span className="visually-hidden">({severity})</span>
        </p>
        <p className="muted small">{detail}</p>
      </div>
      <div className="alarm-side small">
        <Ago at={since} />
        {route && <Link to={route.path}>{route.title}</Link>}
      </div>
    </li>
  );
}
