import { useEffect } from "react";
import { useResource } from "../api/hooks";
import type { Overview as Data } from "../api/types";
import { Loaded, PageFrame } from "../components";
import { live, useLive } from "../live/store";
import { Alarms } from "./overview/Alarms";
import { Charts } from "./overview/Charts";
import { Counts } from "./overview/Counts";
import { LatencySplit } from "./overview/LatencySplit";
import { OrderFigures } from "./overview/OrderFigures";
import { SystemStatus } from "./overview/SystemStatus";
import "./overview/overview.css";

/** Does order hold, now and over the last ten minutes? */
export default function Overview() {
  // What the WebSocket does not carry (counts, latency) is read again now and then.
  const overview = useResource<Data>("/overview", { everyMs: 5000 });
  const data = overview.data;
  useEffect(() => {
    if (data) live.seed(data.series);
  }, [data]);
  const alarms = useLive((state) => state.alarms) ?? data?.alarms ?? [];
  const state = useLive((now) => now.state) ?? data?.state;

  return (
    <PageFrame title="Overview" actions={state && <SystemStatus state={state} />}>
      <Loaded resource={overview} lines={8}>
        {(loaded) => (
          <>
            {alarms.length > 0 && <Alarms alarms={alarms} />}
            <OrderFigures overview={loaded} />
            <Counts counts={loaded.counts} />
            <Charts />
            <LatencySplit latency={loaded.latency} />
          </>
        )}
      </Loaded>
    </PageFrame>
  );
}
