namespace MudServer.Softcode;

/// <summary>A running loop: its current item and the number of items before it.</summary>
internal sealed class SoftcodeLoop
{
    public string Item { get; private set; } = string.Empty;

    public int Position { get; private set; }

    public void MoveTo(string item)
    {
        Item = item;
        Position++;
    }
}
