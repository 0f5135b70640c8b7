namespace BatchKit.Testing.Tests.Examples;

/// <summary>Game code of the examples: shows a player what they carry.</summary>
internal sealed class Inventory(IOutputBuffer output)
{
    public async Task ShowAsync(OutputHandle player, IEnumerable<string> items)
    {
        await using var scope = output.BeginBufferingScope(player);
        output.Write(player, "You carry:\r\n");
        foreach (var item in items)
            output.Write(player, $"  {item}\r\n");
    }
}
