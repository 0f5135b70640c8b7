using Spectre.Console.Rendering;

namespace Shared;

/// <summary>Shows the figures of a run, as a panel or as a line.</summary>
internal interface IScreen
{
    /// <summary>The settings of this run, in one line.</summary>
    string Title { get; }

    /// <summary>Draws the current figures.</summary>
    IRenderable Draw(int width);

    /// <summary>Returns the current figures as one line. It is called once a second.</summary>
    string Say();
}
