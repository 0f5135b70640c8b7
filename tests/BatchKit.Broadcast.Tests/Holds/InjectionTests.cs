using System.Text;
using System.Threading.Channels;
using BatchKit.Broadcast.Tests.Clients;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>What one client writes into another's screen, from each protocol into each other.</summary>
[Collection(HoldCollection.Name)]
public sealed class InjectionTests
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    public static TheoryData<ClientProtocol, ClientProtocol> Ways
    {
        get
        {
            var protocols = Enum.GetValues<ClientProtocol>();
            return new TheoryData<ClientProtocol, ClientProtocol>(protocols.SelectMany(from => protocols.Select(to => (from, to))));
        }
    }

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task Nothing_of_a_clients_text_moves_another_clients_cursor_turns_its_text_around_or_looks_like_a_line_of_its_own(ClientProtocol from, ClientProtocol to)
    {
        var lines = Channel.CreateUnbounded<string>();
        await using var server = await HoldServer.StartAsync(handlers: (server, connection) => new ChatHandler(server, connection));
        var (reader, _) = await server.ConnectAsync(1, to, line => lines.Writer.TryWrite(line));
        var (writer, _) = await server.ConnectAsync(2, from, _ => { });

        // No line feed and no carriage return: to telnet and TCP clients they are what ends a line.
        var lineEnds = from == ClientProtocol.WebSocket ? "\r\n2: forged\n\r" : "\u0085\u2028\u2029\v\f";
        await writer.SendAsync($"a\u001b[2Jb\u001b]0;title\u0007c\u009b31md{lineEnds}e\u202Ef\u2066g\u2069h\ti€").WithinDeadline();
        await writer.SendAsync("end").WithinDeadline();

        var expectedEnds = from == ClientProtocol.WebSocket ? " 2: forged  " : "     ";
        Assert.Equal($"2: a[2Jb]0;titlec31md{expectedEnds}efgh i€", await lines.Reader.ReadAsync().WithinDeadline());
        Assert.Equal("2: end", await lines.Reader.ReadAsync().WithinDeadline());
        await reader.DisposeAsync();
        await writer.DisposeAsync();
    }

    /// <summary>Learns a client's number from its first line, and passes the others on to everyone.</summary>
    private sealed class ChatHandler(HoldServer server, ClientConnection connection) : IConnectionHandler
    {
        private string? _name;

        public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            for (var index = 0; index < records.Length; index++)
            {
                var text = Encoding.UTF8.GetString(records.Span[index].Payload.Span);
                if (_name is not null)
                {
                    server.Output.Write(Hall, $"{_name}: {text}\n");
                    continue;
                }

                _name = text;
                server.Output.Write(connection.Handle, ControlMessage.JoinGroup(Hall.Name!));
                await server.Output.FlushAsync(connection.Handle, cancellationToken);
                server.Announce(int.Parse(text, System.Globalization.CultureInfo.InvariantCulture), connection);
            }
        }
    }
}
