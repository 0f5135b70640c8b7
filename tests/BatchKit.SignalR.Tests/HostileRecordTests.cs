using BatchKit.SignalR.Records;
using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.SignalR;

namespace BatchKit.SignalR.Tests;

/// <summary>Records that no server wrote harm nothing but themselves.</summary>
public sealed class HostileRecordTests
{
    public static TheoryData<string> Records =>
    [
        "", "00", "01", "02", "03", "04", "05", "06", "07", "FF", "01FFFFFFFF", "01FFFFFF7F", "0101000000", "0100000000FFFFFF7F", "01000000000100000004000000",
        "02010000004101000000", "0401000000410100000042FF000000", "030000000000000000", "0609000000",
    ];

    [Theory]
    [MemberData(nameof(Records))]
    public async Task A_record_that_no_server_wrote_harms_no_other(string record)
    {
        await using var server = await HubServer.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(server.Address);
        var prefix = HubAddress.PrefixOf(typeof(TestHub));

        foreach (var name in (string[])[$"{prefix}all/", $"{prefix}group/room", $"{prefix}connection/{client.Id}", $"{prefix}server/x", $"{prefix}x/", prefix, "signalr/"])
            server.Output.TryWrite(OutputHandle.Named(name), Convert.FromHexString(record));
        await server.Hub.Clients.All.SendAsync(TestHub.Receive, "hello");

        await server.FlushAsync(client);
        Assert.Equal(["hello"], client.Texts);
    }
}
