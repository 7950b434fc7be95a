import { useState } from "react";
import { api, ApiError, part, withQuery } from "../../api/client";
import { useResource, type Resource } from "../../api/hooks";
import type { TopicDetail } from "../../api/types";
import { Banner, Button, Dialog, EventLink, Facts, Loaded, TopicName, toast } from "../../components";
import { formatCount, formatRate } from "../../lib/numbers";
import { Link } from "../../router";
import { LogSettings } from "./LogSettings";

/** One topic: its numbers, its sequencing group, pin and event log. */
export function TopicDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const topic = useResource<TopicDetail>(`/topics/${part(id)}`, { everyMs: 3000 });
  return (
    <Dialog title={topic.data ? <TopicName topic={topic.data} /> : "Topic"} onClose={onClose} wide>
      <Loaded resource={topic} lines={6}>
        {(data) => <Detail topic={data} resource={topic} />}
      </Loaded>
    </Dialog>
  );
}

/** Changes a topic as it was seen: what somebody else changed since is not overwritten. */
export async function changeTopic(id: string, etag: string | null, change: object): Promise<void> {
  await api.patch(`/topics/${part(id)}`, change, { ifMatch: etag });
}

function Detail({ topic, resource }: { topic: TopicDetail; resource: Resource<TopicDetail> }) {
  const [isStale, setStale] = useState(false);
  const change = async (etag: string | null, changes: object, done: string): Promise<boolean> => {
    try {
      await changeTopic(topic.id, etag, changes);
      setStale(false);
      toast.ok(done);
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.isStale) setStale(true);
      else toast.error(error);
      return false;
    } finally {
      await resource.reload();
    }
  };
  return (
    <>
      {isStale && (
        <Banner tone="warn">
          Somebody else changed this topic meanwhile, so nothing was changed by you. What you see now is current.
        </Banner>
      )}
      <Facts
        pairs={2}
        items={[
          ["Place", `rank ${formatCount(topic.rank)}, on stage ${topic.stage}`],
          ["Rate", `${formatRate(topic.rate)} timestamps per second`],
          ["Last number", topic.number === "0" ? "none yet" : <EventLink topic={topic} number={topic.number} />],
          ["Highest confirmed", topic.head === "0" ? "none yet" : <EventLink topic={topic} number={topic.head} />],
          ["Confirmed", formatCount(topic.confirmed)],
          ["Pending", formatCount(topic.pending)],
          ["Given up", `${formatCount(topic.void)} void, ${formatCount(topic.abandoned)} abandoned`],
          ["Confirmed late", formatCount(topic.late)],
          ["Subscribers", formatCount(topic.subscribers)],
          ["Id", <span className="mono">{topic.id}</span>],
        ]}
      />
      <Pin topic={topic} onChange={(pinned, done) => change(resource.etag, { pinned }, done)} />
      <LogSettings topic={topic} etag={resource.etag} onChange={change} />
      <Group topic={topic} />
    </>
  );
}

function Pin(props: { topic: TopicDetail; onChange: (pinned: boolean, done: string) => Promise<boolean> }) {
  const { topic, onChange } = props;
  const [busy, setBusy] = useState(false);
  const toggle = async (): Promise<void> => {
    setBusy(true);
    const done = topic.pinned ? "The topic may change its stage again." : "The topic stays on its stage now.";
    await onChange(!topic.pinned, done);
    setBusy(false);
  };
  return (
    <section className="detail-section">
      <div className="detail-head">
        <h3>Pin</h3>
        <Button size="small" icon="pin" needs="operator" busy={busy} onClick={() => void toggle()}>
          {topic.pinned ? "Unpin" : "Pin to its stage"}
        </Button>
      </div>
      <p className="muted small">
        {topic.pinned
          ? `It stays on stage ${topic.stage}, however popular it is, also when the order changes.`
          : "Its place may change, by hand or by popularity in automatic mode."}
      </p>
    </section>
  );
}

function Group({ topic }: { topic: TopicDetail }) {
  return (
    <section className="detail-section">
      <h3>Sequencing group</h3>
      {topic.group.length === 0 ? (
        <p className="muted small">
          It is sequenced with no other topic: for that, two or more clients must subscribe to both.
        </p>
      ) : (
        <>
          <p className="muted small">
            Two or more clients subscribe to both this topic and each of these {formatCount(topic.group.length)}; each
            timestamp names the last number of these it comes after.
          </p>
          <ul className="group-list">
            {topic.group.map((each) => (
              <li key={each.id}>
                <Link to={withQuery("/topics", { topic: each.id })}>
                  <TopicName topic={each} />
                </Link>
                <span className="muted small">stage {each.stage}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
