import { SessionProvider, useSessionContext } from "./api/session";
import { ErrorState, Skeleton } from "./components/notices";
import { Toasts } from "./components/toasts";
import { Login } from "./Login";
import { Shell } from "./Shell";

export function App() {
  return (
    <SessionProvider>
      <Gate />
      <Toasts />
    </SessionProvider>
  );
}

function Gate() {
  const { status, retry } = useSessionContext();
  switch (status.kind) {
    case "starting":
      return (
        <main className="gate">
          <Skeleton lines={3} />
        </main>
      );
    case "failed":
      return (
        <main className="gate">
          <ErrorState error={status.error} onRetry={retry} />
        </main>
      );
    case "out":
      return <Login reason={status.reason} />;
    case "in":
      return <Shell />;
  }
}
