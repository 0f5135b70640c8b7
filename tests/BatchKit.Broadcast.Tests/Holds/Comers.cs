using BatchKit.Broadcast.Tests.Clients;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Clients that come, join a group, and go at once, in order or by breaking the connection, while others are sent to.</summary>
internal sealed class Comers(HoldServer server, int firstNumber)
{
    private static readonly ClientProtocol[] Protocols = [ClientProtocol.Tcp, ClientProtocol.Telnet, ClientProtocol.WebSocket];

    public List<ClientConnection> Came { get; } = [];

    public async Task RunAsync(CancellationToken cancellationToken)
    {
        for (var number = firstNumber; !cancellationToken.IsCancellationRequested; number++)
        {
            var arrived = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            var (client, connection) = await server.ConnectAsync(number, Protocols[number % 3], _ => arrived.TrySetResult()).ConfigureAwait(false);
            Came.Add(connection);
            server.Output.Write(connection.Handle, ControlMessage.JoinGroup(MessageStreams.GroupOf(number % MessageStreams.Groups)));
            server.Output.Write(connection.Handle, "welcome\n");
            await arrived.Task.ConfigureAwait(false);
            if (number % 2 == 0)
                client.Finish();
            await client.DisposeAsync().ConfigureAwait(false);
        }
    }
}
