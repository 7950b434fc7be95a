import type { Alarm } from "../../api/types";
import { Ago, Card, Icon } from "../../components";
import { Link } from "../../router";
import { routeOfAlarm } from "../../routes";

/** What an operator must know of, the worst first. */
export function Alarms({ alarms }: { alarms: readonly Alarm[] }) {
  return (
    <Card title={alarms.length === 1 ? "1 alarm" : `${alarms.length} alarms`} flush>
      <ul className="alarms" aria-live="polite">
        {alarms.map((alarm) => (
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
