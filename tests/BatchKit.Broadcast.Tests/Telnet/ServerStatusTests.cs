using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Testing;
using BatchKit.Transports;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class ServerStatusTests
{
    [Fact]
    public void A_client_that_agrees_gets_the_servers_status_as_it_is_then()
    {
        var players = 0;
        var scene = new TelnetScene(new TelnetOptions
        {
            Offered = TelnetFeatures.ServerStatus,
            ServerStatus = () => [new("NAME", "My MUD"), new("PLAYERS", $"{players}"), new("PORT", "4000"), new("PORT", "23")],
        });

        players = 7;
        scene.Read("FF FD 46");

        Assert.Equal(Bytes("FF FB 46 FF FA 46 01 'NAME' 02 'My MUD' 01 'PLAYERS' 02 '7' 01 'PORT' 02 '4000' 02 '23' FF F0"), scene.Sent);
    }

    [Fact]
    public void The_status_is_told_once_however_often_a_client_asks()
    {
        var asked = 0;
        var scene = new TelnetScene(new TelnetOptions
        {
            Offered = TelnetFeatures.None,
            ServerStatus = () =>
            {
                asked++;
                return [];
            },
        });

        scene.Read("FF FD 46 FF FE 46 FF FD 46 FF FE 46 FF FD 46");

        Assert.Equal(1, asked);
    }

    [Fact]
    public void Control_characters_of_the_status_are_left_out()
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.None, ServerStatus = () => [new("NA\u0002ME", "My\u0001 MUD\r\n")] });

        scene.Read("FF FD 46");

        Assert.Equal(Bytes("FF FB 46 FF FA 46 01 'NAME' 02 'My MUD' FF F0"), scene.Sent);
    }

    [Fact]
    public void Entries_with_null_cost_no_client()
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.None, ServerStatus = () => [new("NAME", "My MUD"), new("CONTACT", null!), new(null!, "lost"), new("PORT", "23")] });

        scene.Read("FF FD 46");

        Assert.Equal(Bytes("FF FB 46 FF FA 46 01 'NAME' 02 'My MUD' 01 'PORT' 02 '23' FF F0"), scene.Sent);
    }

    [Fact]
    public void Without_a_status_it_is_neither_offered_nor_agreed_to()
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.ServerStatus });

        scene.Read("FF FD 46");

        Assert.Equal(Bytes("FF FC 46"), scene.Sent);
    }

    [Fact]
    public void MSDP_is_refused_unless_the_server_supports_it()
    {
        var scene = new TelnetScene();

        var records = scene.Read("FF FD 45 FF FA 45 01 'LIST' 02 'COMMANDS' FF F0");

        Assert.Equal(Bytes("FF FC 45"), scene.Sent);
        Assert.Empty(records);
    }

    [Fact]
    public void MSDP_comes_as_records_and_goes_to_those_who_agreed_alone()
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.Msdp, Supported = TelnetFeatures.All });
        var before = Encode(scene);

        var records = scene.Read("FF FD 45 FF FA 45 01 'REPORT' 02 'HEALTH' 02 'MANA' FF F0");

        var record = Assert.Single(records);
        Assert.Equal(RecordKind.Msdp, record.Kind);
        Assert.Equal([new("REPORT", "HEALTH"), new("REPORT", "MANA")], TelnetMessages.ReadMsdp(Some.Bytes(record.Text)));
        Assert.True(scene.Terminal.TakesMsdp);
        Assert.Equal((null, Convert.ToHexString(Bytes("FF FA 45 01 'HEALTH' 02 '7' FF F0"))), (before, Encode(scene)));
    }

    [Fact]
    public void MSDP_arrays_are_written_and_read()
    {
        Assert.Equal(Bytes("01 'LIST' 02 05 02 'A' 02 'B' 06"), TelnetMessages.WriteMsdp("LIST", "A", "B"));
        Assert.Equal([new("LIST", "A"), new("LIST", "B")], TelnetMessages.ReadMsdp(TelnetMessages.WriteMsdp("LIST", "A", "B")));
        Assert.Equal(Bytes("01 'LIST' 02 05 06"), TelnetMessages.WriteMsdp("LIST"));
        Assert.Equal([new("AFTER", "x")], TelnetMessages.ReadMsdp(Bytes("01 'ROOM' 02 03 01 'VNUM' 02 '1' 04 01 'AFTER' 02 'x'")));
        Assert.Equal([new("NAME", "")], TelnetMessages.ReadMsdp(Bytes("01 'NAME' 02")));
        Assert.Throws<ArgumentException>(() => TelnetMessages.WriteMsdp("LIST", "a\u0006"));
    }

    [Fact]
    public void The_names_and_values_of_MSDP_are_clean()
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.Msdp, Supported = TelnetFeatures.All });

        var record = Assert.Single(scene.Read("FF FD 45 FF FA 45 01 'R' 1B 'E' 02 'a' E2 80 AE 09 'b' C2 9B FF F0"));

        Assert.Equal(Bytes("01 'RE' 02 'a b'"), Some.Bytes(record.Text));
        Assert.Equal([new("RE", "a b")], TelnetMessages.ReadMsdp(Bytes("01 'R' 1B 'E' 02 'a' E2 80 AE 09 'b' C2 9B")));
    }

    [Fact]
    public void Any_bytes_are_read_as_MSDP_without_an_exception()
    {
        var random = new Random(20_261_122);
        for (var input = 0; input < 100_000; input++)
        {
            var bytes = new byte[random.Next(40)];
            random.NextBytes(bytes);
            for (var place = 0; place < bytes.Length; place++)
                bytes[place] = random.Next(2) == 0 ? (byte)random.Next(8) : bytes[place];

            Assert.InRange(TelnetMessages.ReadMsdp(bytes).Count, 0, bytes.Length);
        }
    }

    private static string? Encode(TelnetScene scene)
    {
        var destination = new byte[100];
        var message = new BatchMessage(TelnetMessages.WriteMsdp("HEALTH", "7"), TelnetMessages.Msdp);
        return MessageEncoder.TryEncode(scene.Connection.Format, message, destination, out var written) ? Convert.ToHexString(destination, 0, written) : null;
    }
}
