using Spectre.Console.Rendering;

namespace WorldTicks.View;

/// <summary>What there is to see of a world or a worker, as a panel and as a line.</summary>
internal interface ITicksScreen
{
    /// <summary>What was asked for, in a line.</summary>
    string Title { get; }

    /// <summary>Draws how things stand.</summary>
    IRenderable Draw(int width);

    /// <summary>Says the same in a line; called once a second.</summary>
    string Say();
}
