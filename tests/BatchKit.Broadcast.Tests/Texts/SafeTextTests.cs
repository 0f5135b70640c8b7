using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Clients;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using MudGame;
using SampleMember = ChatServer.ChatMember;
using TemplateMember = ChatRooms.ChatMember;

namespace BatchKit.Broadcast.Tests.Texts;

/// <summary>Each hostile character, through each door, as a name and as a line, to the handlers of the samples, the templates and the readmes: what a telnet client gets of it.</summary>
public sealed class SafeTextTests : IAsyncLifetime
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    // Each handler has one of these.
    private static readonly string[] Groups = ["everybody", "lobby", "room", "hall"];

    private readonly BroadcastTransport _transport = new(new BroadcastOptions { MaxConnectionsPerAddress = 10_000 });
    private readonly OutputBuffer _output;
    private readonly Room _room;
    private readonly Dictionary<ClientProtocol, BroadcastListener> _listeners = [];
    private readonly WebApplication _application;
    private Func<ClientConnection, IConnectionHandler>? _handlers;

    public SafeTextTests()
    {
        _output = new OutputBuffer(_transport);
        _room = new Room(_output, new MudSettings());
        foreach (var protocol in new[] { ClientProtocol.Tcp, ClientProtocol.Telnet })
        {
            var options = new BroadcastListenerOptions { Protocol = protocol, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Telnet = new TelnetOptions { Supported = TelnetFeatures.All } };
            _listeners[protocol] = new BroadcastListener(_transport, options, Handle, _output);
        }

        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseKestrelCore().ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, port: 0));
        _application = builder.Build();
        _application.MapBatchKitWebSockets("/ws", _transport, Handle, new WebSocketEndpointOptions { AcceptsBinary = true }, _output);
    }

    public static TheoryData<string, TextDoor> Table
    {
        get
        {
            var handlers = new[] { nameof(ChatServer), "TwoNodeChat", "Templates.Chat", "Templates.Mud", nameof(EverythingHandler) };
            return new TheoryData<string, TextDoor>(handlers.SelectMany(handler => Enum.GetValues<TextDoor>().Select(door => (handler, door))));
        }
    }

    public async ValueTask InitializeAsync()
    {
        foreach (var listener in _listeners.Values)
            await listener.StartAsync(CancellationToken.None);
        await _application.StartAsync();
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        foreach (var listener in _listeners.Values)
            await listener.DisposeAsync();
        await _transport.DisposeAsync();
        await _application.DisposeAsync();
    }

    [Theory]
    [MemberData(nameof(Table))]
    public async Task A_hostile_character_reaches_no_telnet_client(string handler, TextDoor door)
    {
        _handlers = connection => Create(handler, connection);
        using var victim = await Victim.ConnectAsync(_listeners[ClientProtocol.Telnet].EndPoint);
        await Until.TrueAsync(() => Groups.Any(group => _transport.GetMembers(group).Count > 0));

        for (var index = 0; index < HostileText.All.Count; index++)
        {
            var hostile = HostileText.All[index];
            using var attacker = await ConnectAsync(door);
            await attacker.SendAsync(TextDoors.Encode(door, $"na{hostile}me"));
            await attacker.SendAsync(TextDoors.Encode(door, $"say a{hostile}{HostileText.Forged}"));

            // A door that leads nowhere is passed by a plain line.
            var plain = TextDoors.ProtocolOf(door) == ClientProtocol.WebSocket ? TextDoor.WebSocketText : TextDoor.TelnetLine;
            await attacker.SendAsync(TextDoors.Encode(plain, $"done{index}"));
            await attacker.SendAsync(TextDoors.Encode(plain, $"say done{index}"));
            await victim.ReadPastAsync($"done{index}");
        }

        HostileText.AssertNoneIn(victim.Received);
    }

    private IConnectionHandler Handle(ClientConnection connection) => _handlers!(connection);

    private IConnectionHandler Create(string handler, ClientConnection connection) => handler switch
    {
        nameof(ChatServer) => new SampleMember(connection, _output),
        "TwoNodeChat" => (IConnectionHandler)ActivatorUtilities.CreateInstance(
            new ServiceCollection().AddSingleton<IOutputBuffer>(_output).BuildServiceProvider(), Type.GetType("Member, TwoNodeChat", throwOnError: true)!, connection),
        "Templates.Chat" => new TemplateMember(connection, _output),
        "Templates.Mud" => new Player(connection, _output, _room, new MudSettings()),
        _ => new EverythingHandler(connection, _output),
    };

    private async Task<Socket> ConnectAsync(TextDoor door)
    {
        var protocol = TextDoors.ProtocolOf(door);
        var endPoint = protocol == ClientProtocol.WebSocket ? new IPEndPoint(IPAddress.Loopback, new Uri(_application.Urls.First()).Port) : _listeners[protocol].EndPoint;
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(endPoint);
        if (protocol == ClientProtocol.WebSocket)
            await WebSocketHandshake.DoAsync(socket, endPoint);
        return socket;
    }

    /// <summary>A telnet client with a name, which reads what the others cause.</summary>
    private sealed class Victim(Socket socket) : IDisposable
    {
        private readonly TelnetDecoder _decoder = new();
        private readonly List<byte> _received = [];
        private readonly byte[] _buffer = new byte[4096];

        public string Received => Encoding.UTF8.GetString([.. _received]);

        public static async Task<Victim> ConnectAsync(IPEndPoint endPoint)
        {
            var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
            await socket.ConnectAsync(endPoint);
            await socket.SendAsync("Victim\r\n"u8.ToArray());
            return new Victim(socket);
        }

        public async Task ReadPastAsync(string text)
        {
            while (!Received.Contains(text, StringComparison.Ordinal))
            {
                var read = await socket.ReceiveAsync(_buffer).WithinDeadline();
                Assert.NotEqual(0, read);
                _decoder.Decode(_buffer.AsSpan(0, read), _received, []);
            }
        }

        public void Dispose() => socket.Dispose();
    }

    /// <summary>Shows everything to everyone, whatever its kind is, and what each client says about itself.</summary>
    private sealed class EverythingHandler(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
    {
        public ValueTask StartAsync(CancellationToken cancellationToken)
        {
            output.Write(connection.Handle, ControlMessage.JoinGroup(Hall.Name!));
            return default;
        }

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            foreach (var record in records.Span)
            {
                foreach (var text in TextsOf(record).Concat(TextsOf(connection.Terminal)))
                    output.Write(Hall, $"{connection.Handle}: {text}\r\n");
            }

            return default;
        }

        private static string[] TextsOf(TelnetTerminal? terminal) => [terminal?.Type ?? "", terminal?.ClientName ?? "", terminal?.ClientVersion ?? ""];

        private static string[] TextsOf(ReceivedRecord record) => record.Kind switch
        {
            RecordKind.Gmcp => [JsonDocument.Parse(Encoding.UTF8.GetString(record.Payload.Span["Chat.Say ".Length..])).RootElement.GetProperty("text").GetString()!],
            RecordKind.Msdp => [.. TelnetMessages.ReadMsdp(record.Payload.Span).SelectMany(pair => new[] { pair.Key, pair.Value }), record.GetText()],
            _ => [record.GetText()],
        };
    }
}
