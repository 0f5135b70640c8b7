using System.Collections.Immutable;
using System.Text;
using BatchKit.Sessions;
using BatchKit.Testing;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Sessions;

/// <summary>A buffer with sessions over connections that a test opens and cuts.</summary>
internal sealed class SessionRig : IAsyncDisposable
{
    public SessionRig(SessionOptions? options = null, OutputBufferOptions? buffer = null, SomeConnections? connections = null, IOutputRouter? router = null, ILogger<SessionTransport>? logger = null)
    {
        Connections = connections ?? new SomeConnections();
        Sessions = new SessionTransport(() => Output!, options, new NodeNumber(3), Clock, logger);
        Output = new OutputBuffer(
            [new OutputRoute("connections", Connections), new OutputRoute(SessionTransport.RouteName, Sessions)],
            router is null ? new SessionRouter(Sessions, "connections") : new SessionRouter(Sessions, router), buffer, timeProvider: Clock);
    }

    public ManualTimeProvider Clock { get; } = new();

    public SomeConnections Connections { get; }

    public SessionTransport Sessions { get; }

    public OutputBuffer Output { get; }

    public SessionStatistics Statistics => Sessions.GetStatistics();

    public Session Open(OutputHandle connection, bool acknowledges = true) =>
        Sessions.TryOpen(connection, acknowledges, out var session) ? session : throw new InvalidOperationException("No session was opened.");

    /// <summary>Opens a session whose client has gone since.</summary>
    public Session OpenAway(bool acknowledges = true)
    {
        var connection = Connections.Open();
        var session = Open(connection, acknowledges);
        Cut(connection);
        return session;
    }

    public SessionInput Say(OutputHandle connection, string line) => Sessions.Receive(connection, Encoding.UTF8.GetBytes(line));

    /// <summary>Waits until what was written is with the connections. Forwarded output is written by the first flush's sends.</summary>
    public async Task SettleAsync()
    {
        await FlushAsync();
        await FlushAsync();
    }

    public async Task<IReadOnlyList<string>> ReadAsync(OutputHandle connection)
    {
        await SettleAsync();
        return Connections.Read(connection);
    }

    /// <summary>Cuts a connection as a gateway that tells of it does.</summary>
    public void Cut(OutputHandle connection)
    {
        Connections.Cut(connection);
        Sessions.Suspend(connection);
    }

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Sessions.DisposeAsync();
    }

    // A test looks at what was lost itself. An exception that nobody observed would fail another test.
    private async Task FlushAsync()
    {
        try
        {
            await Output.FlushAsync().WithinDeadline();
        }
        catch (OutputDeliveryException)
        {
        }
    }
}

/// <summary>A router of the application's that throws for connections, or blocks for one.</summary>
internal sealed class BlockingRouter : IOutputRouter
{
    public bool Refuses { get; set; }

    public OutputHandle Blocked { get; set; }

    public TaskCompletionSource Blocks { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public ManualResetEventSlim Unblock { get; } = new();

    public ImmutableArray<string> GetRoutes(OutputHandle handle)
    {
        if (Refuses && handle.IsConnection)
            throw new IOException("The test says that the router throws.");
        if (handle == Blocked)
        {
            Blocks.TrySetResult();
            Unblock.Wait();
        }

        return ["connections"];
    }
}
