using BatchKit.Broadcast.Tests.Clients;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Many clients of all protocols, for the group <c>hall</c>, each with the lines that it got.</summary>
internal sealed class Crowd(HoldServer server)
{
    public static OutputHandle Hall { get; } = OutputHandle.Named("hall");

    private static readonly ClientProtocol[] Protocols = [ClientProtocol.Tcp, ClientProtocol.Telnet, ClientProtocol.WebSocket];

    public IReadOnlyList<CrowdClient> Clients { get; private set; } = [];

    /// <summary>Lets them in.</summary>
    /// <param name="server">Serves them.</param>
    /// <param name="count">How many.</param>
    /// <param name="small">How many of the first are soon slow when they stop reading.</param>
    public static async Task<Crowd> ConnectAsync(HoldServer server, int count, int small)
    {
        var crowd = new Crowd(server);
        crowd.Clients = await Task.WhenAll(Enumerable.Range(0, count).Select(number => crowd.ConnectAsync(number, number < small)));
        return crowd;
    }

    public async Task JoinAsync(IEnumerable<CrowdClient> clients)
    {
        foreach (var client in clients)
            server.Output.Write(client.Handle, ControlMessage.JoinGroup(Hall.Name!));
        await server.Output.FlushAsync().WithinDeadline();
    }

    /// <summary>Everyone's line behind all that was written to it before.</summary>
    public async Task EndAsync(IEnumerable<CrowdClient> clients)
    {
        var ending = clients.ToArray();
        foreach (var client in ending)
            server.Output.Write(client.Handle, "end\n");
        await server.Output.FlushAsync().WithinDeadline();
        await Task.WhenAll(ending.Select(client => client.Lines.WaitForAsync("end"))).WithinDeadline();
    }

    public async Task LeaveAsync()
    {
        await Task.WhenAll(Clients.Select(client => client.Socket.DisposeAsync().AsTask()));
        await Task.WhenAll(Clients.Select(client => server.EndOf(client.Connection))).WithinDeadline();
    }

    private async Task<CrowdClient> ConnectAsync(int number, bool isSmall)
    {
        var lines = new ReceivedLines();
        var (socket, connection) = await server.ConnectAsync(number, Protocols[number % Protocols.Length], lines.Add, isSmall);
        return new CrowdClient(socket, connection, lines);
    }
}
