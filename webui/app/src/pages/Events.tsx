/** Find one event and its life, watch what passes, publish a test event. */
import { useState } from "react";
import { useList, useResource } from "../api/hooks";
import type { EventDetail, Topic } from "../api/types";
import { Button, Card, EmptyState, Loaded, PageFrame } from "../components";
import { useLocation } from "../router";
import { EventView } from "./events/EventView";
import { PublishDialog } from "./events/PublishDialog";
import { SearchForm } from "./events/SearchForm";
import { searchOf, queryOf } from "./events/search";
import { TailCard } from "./events/TailCard";
import "../styles/events.css";

const EVERY_MS = 10_000;

export default function Events() {
  const { query } = useLocation();
  const search = searchOf(query);
  const topics = useList<Topic>("/topics", { everyMs: EVERY_MS });
  const [isPublishing, setPublishing] = useState(false);
  const known = topics.data?.items ?? [];
  return (
    <PageFrame
      title="Events"
      lead="Every event has a number in its topic. Look one up to see what it waited for and what became of it."
      actions={
        <Button icon="send" needs="operator" onClick={() => setPublishing(true)}>
          Publish a test event
        </Button>
      }
    >
      <Card title="Find an event">
        <SearchForm key={query.toString()} search={search} topics={known} />
      </Card>
      {search && <Found query={queryOf(search)} />}
      <TailCard topics={known} />
      {isPublishing && <PublishDialog topics={known} onClose={() => setPublishing(false)} />}
    </PageFrame>
  );
}

function Found({ query }: { query: string }) {
  const found = useResource<EventDetail>("/events", { query: Object.fromEntries(new URLSearchParams(query)) });
  return (
    <Loaded resource={found} lines={6}>
      {(event) =>
        event ? (
          <EventView event={event} onReload={() => void found.reload()} />
        ) : (
          <Card>
            <EmptyState title="There is no such event" icon="search" />
          </Card>
        )
      }
    </Loaded>
  );
}
