namespace BatchKit.IntegrationTests.Broadcast;

/// <summary>A client of a gateway.</summary>
internal sealed record GatewayClient(OutputHandle Handle, StreamReader Reader)
{
    public async Task<string[]> ReadLinesAsync(int count)
    {
        var lines = new string[count];
        for (var line = 0; line < count; line++)
            lines[line] = await Reader.ReadLineAsync().WithinDeadline() ?? "(end)";
        return lines;
    }
}
