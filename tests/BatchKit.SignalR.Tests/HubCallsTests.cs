using System.IO.Pipelines;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Hubs;
using BatchKit.SignalR.Records;
using BatchKit.Testing;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.SignalR.Tests;

/// <summary>Moments of a call between servers that a whole server seldom meets.</summary>
public sealed class HubCallsTests
{
    [Fact]
    public async Task A_call_that_finds_a_client_and_begins_after_its_end_is_answered()
    {
        var transport = new CollectingTransport();
        await using var buffer = new OutputBuffer(transport);
        var calls = new HubCalls(new HubOutput(buffer, "signalr/hub/", [new JsonHubProtocol()]), hasBackplane: true, TimeSpan.FromMinutes(1), TimeProvider.System);
        var (members, client) = (new HubMembers(), CreateClient());
        members.Add(client);
        members.Remove(client.Connection.ConnectionId);
        await calls.EndAsync(client);

        calls.Begin(client, "other", "1");

        await Until.TrueAsync(() => transport.MessageCount == 1);
        Assert.Contains("disconnected", transport.Texts[0], StringComparison.Ordinal);
        Assert.False(calls.TryGetReturnType("1", out _));
    }

    private static HubClient CreateClient()
    {
        var connection = new DefaultConnectionContext("client", new DuplexPipe(), new DuplexPipe());
        var hub = new HubConnectionContext(connection, new HubConnectionContextOptions(), NullLoggerFactory.Instance) { Protocol = new JsonHubProtocol() };
        return new HubClient(hub, OutputHandle.Connection(0, 1), new ClientLimits(new SignalROptions(), TimeProvider.System, NullLogger.Instance));
    }

    private sealed class DuplexPipe : IDuplexPipe
    {
        private readonly Pipe _pipe = new();

        public PipeReader Input => _pipe.Reader;

        public PipeWriter Output => _pipe.Writer;
    }
}
